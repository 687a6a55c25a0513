"""What holds after the last sealed step, how large the next one is, and how its state is kept small."""
