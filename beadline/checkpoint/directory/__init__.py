"""What a checkpoint directory has in it: ``lookup`` finds checkpoints and savepoints by path, ``jobs`` finds jobs."""
