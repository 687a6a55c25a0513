"""Where checkpoints are kept, and which files they share.

``storage`` says what a place for them does. ``memory`` is the driver's memory. ``durable`` brings segments to where
they last, ``verify`` checks them, ``registry`` knows who needs which file.
"""
