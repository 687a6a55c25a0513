"""A job's checkpoints and savepoints, where they live, what its sinks put into them, and what it starts from."""
