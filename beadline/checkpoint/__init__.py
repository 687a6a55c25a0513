"""Checkpoints: when they are taken, what they hold, where they are kept, and what follows a failure."""
