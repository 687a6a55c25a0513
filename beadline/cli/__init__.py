"""The ``beadline`` command."""
