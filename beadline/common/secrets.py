"""What must not be shown: values of options that are secrets by their names, and passwords within texts.

The names are those that Flink hides, and a few more. Checkpoints, pages, answers and archives are read by many, so all
of them go through here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "****"

_NAMES = re.compile(
    r"password|passwd|passphrase|secret|token|api-?key|access-?key|service-?key|account\.key|credential|"
    r"auth-params|basic[.-]auth|auth\.user\.info|jaas\.config|http-headers|private-?key",
    re.IGNORECASE,
)
# user:password@ in a URL; password=… in a URL's query, a list of settings or a command line.
_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
_ASSIGNED = re.compile(
    r"(?i)((?:password|passwd|secret|token|api-?key|access-?key)[\w.-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s&;,)\"']+)"
)


def is_secret(name: str) -> bool:
    """Whether the value of an option of this name is not to be shown."""
    return _NAMES.search(name) is not None


def without_passwords(text: str) -> str:
    """A text with the passwords hidden that stand in URLs, and those that follow ``password=`` or the like."""
    if "://" in text:
        text = _IN_URL.sub(rf"\1:{HIDDEN}@", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options to be shown."""
    return {key: HIDDEN if is_secret(key) else without_passwords(str(value)) for key, value in options.items()}
