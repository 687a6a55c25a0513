"""Thresholds of merging so low that small tests reach them."""

from __future__ import annotations

import pytest

from beadline.master.upkeep import handles, tiers


def merge_soon(patch: pytest.MonkeyPatch) -> None:
    """Every few segments are merged, and none is too small to be merged in parts."""
    patch.setattr(tiers, "_MERGE_AT_LEAST", 3)
    patch.setattr(tiers, "_KEEP_NEWEST", 1)
    patch.setattr(tiers, "_LEAST", 1)
    patch.setattr(tiers, "_SMALL", 1)
    patch.setattr(tiers, "FREE", 0)
    patch.setattr(handles, "FREE", 0)
