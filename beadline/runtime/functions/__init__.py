"""What surrounds user functions.

``context`` and ``broadcast_context`` are what they are handed. ``states`` is their operator state, ``fields`` finds
fields that were taken for state, ``aliasing`` copies results that they may still change, ``printed`` gathers what they
print.
"""
