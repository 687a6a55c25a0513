from __future__ import annotations

import re
import uuid

from beadline.errors import ConfigurationError

__all__ = ["JobID"]

_HEX = re.compile(r"[0-9a-fA-F]{32}")
_CHOSEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# Names that folders of checkpoints have.
_TAKEN = re.compile(r"shared|chk-\d+|(lease|fence|beat)-\d+.*|savepoint-.*|ended|latest", re.IGNORECASE)


class JobID:
    """Tells a job from all others: 32 hexadecimal digits, random if none are given, or a name that the user chose."""

    __slots__ = ("_hex",)

    def __init__(self, hex_digits: str | None = None) -> None:
        text = uuid.uuid4().hex if hex_digits is None else str(hex_digits)
        if not _CHOSEN.fullmatch(text):
            raise ConfigurationError(
                "A job id has at most 64 letters, digits, '-' and '_', and begins with a letter or digit; got "
                f"{hex_digits!r}."
            )
        if _TAKEN.fullmatch(text):
            raise ConfigurationError(f"{hex_digits!r} can't be a job id, because Beadline has files of that name.")
        self._hex = text.lower() if _HEX.fullmatch(text) else text

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._hex == other._hex

    def __hash__(self) -> int:
        return hash(self._hex)
