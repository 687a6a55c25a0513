"""The identity of a job."""

from __future__ import annotations

import re
import uuid

from beadline.errors import ConfigurationError

__all__ = ["JobID"]

_HEX = re.compile(r"[0-9a-f]{32}")


class JobID:
    """32 hexadecimal digits that tell a job from all others; random if none are given."""

    __slots__ = ("_hex",)

    def __init__(self, hex_digits: str | None = None) -> None:
        digits = uuid.uuid4().hex if hex_digits is None else str(hex_digits).lower()
        if not _HEX.fullmatch(digits):
            raise ConfigurationError(f"A job id has 32 hexadecimal digits, got {hex_digits!r}.")
        self._hex = digits

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._hex == other._hex

    def __hash__(self) -> int:
        return hash(self._hex)
