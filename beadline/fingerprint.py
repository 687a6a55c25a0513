"""Which code this process runs: driver and workers must run the same, or they would send keys to different subtasks."""

from __future__ import annotations

import zipfile
from pathlib import Path

import xxhash


def code_fingerprint() -> str:
    """A digest of the package's sources, in a folder or in an archive."""
    package = Path(__file__).parent
    digest = xxhash.xxh3_64()
    if package.is_dir():
        files = [(str(f.relative_to(package.parent)), f.read_bytes()) for f in package.rglob("*.py")]
    else:
        with zipfile.ZipFile(package.parent) as archive:
            names = [name for name in archive.namelist() if name.startswith("beadline/") and name.endswith(".py")]
            files = [(name, archive.read(name)) for name in names]
    for name, data in sorted(files):
        digest.update(name.encode())
        digest.update(data)
    return digest.hexdigest()


# Taken when the process starts, not when somebody asks: files may change on disk under a running process.
FINGERPRINT = code_fingerprint()
