"""What holds after the last sealed step, how a step becomes part of it, and how its state is kept small."""
