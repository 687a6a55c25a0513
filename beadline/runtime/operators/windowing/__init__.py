"""Windows: ``windows`` is the operator, ``folded`` its short path for the common case, ``contexts`` is what assigners,
triggers and functions are told."""
