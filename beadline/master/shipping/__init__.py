"""What workers need of the user's program, and how it gets there."""
