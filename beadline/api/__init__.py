"""What user code implements or receives: functions, contexts, state, timers, windows, output tags and metrics.

Nothing here runs a job. The modules of ``beadline.datastream`` re-export these names where a PyFlink program
looks for them; the runtime implements the abstract ones.
"""
