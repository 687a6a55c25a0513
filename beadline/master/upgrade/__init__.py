"""Whether a program can start from a snapshot that another version of it has written, and what that takes."""
