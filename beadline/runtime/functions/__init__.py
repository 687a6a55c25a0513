"""What surrounds user functions.

``context`` is what they are handed. ``states`` is their operator state, ``aliasing`` copies results that they may still
change, ``printed`` gathers what they print.
"""
