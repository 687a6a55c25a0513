"""Hypothesis without deadlines: examples take as long as the machine is busy, and what hangs meets the timeout."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("beadline", deadline=None)
settings.load_profile("beadline")
