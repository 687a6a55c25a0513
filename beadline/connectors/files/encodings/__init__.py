"""The bulk formats that file sinks write."""
