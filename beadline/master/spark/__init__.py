"""Everything that talks to Spark: sessions, the engine that runs tasks on it, and whether it is still there."""
