"""What user code holds of keyed state.

``backend`` is one subtask's states, timers and current key. ``keyed`` has the handles that functions are given, ``ttl``
those whose values expire.
"""
