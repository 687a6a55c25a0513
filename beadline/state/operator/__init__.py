"""Operator state: ``states`` is what a worker holds of one subtask, ``handles`` is how it is stored."""
