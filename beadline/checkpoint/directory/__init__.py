"""What a checkpoint directory has in it: which jobs, which checkpoints.

``lookup`` finds checkpoints and savepoints by their paths, ``jobs`` finds the earlier run of a program, ``trace`` is
the note that a finished job leaves.
"""
