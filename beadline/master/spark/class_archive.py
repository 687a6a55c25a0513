"""An archive of Spark's classes, which the JVM maps into memory instead of reading and verifying them one by one: a
session that has one starts in a little more than half the time.

Java checks by itself that an archive was made by the same Java from the same jars, and does without it otherwise. It
does not check that the file is whole, and crashes if it is not; so the name tells how large the file is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

# Java would tell of archives that it can't use, on standard output.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def folder() -> Path:
    """Where archives are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beadline"


def java_command() -> str | None:
    """The Java that Spark starts, whether it exists or not; None if nothing names one."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def _prefix() -> str:
    """What the archives for this Spark and this Java are called."""
    import pyspark  # takes a while, and whoever only asks for the folder does not need it

    java = os.path.realpath(java_command() or "java")
    place = f"{java} {os.path.realpath(os.path.dirname(pyspark.__file__))} {os.environ.get('SPARK_HOME', '')}"
    return f"spark-{pyspark.__version__}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def find() -> Path | None:
    """The archive for sessions of this installation, if there is one."""
    try:
        candidates = sorted(folder().glob(f"{_prefix()}-*.jsa"))
        for path in candidates:
            size = re.search(r"-(\d+)\.jsa$", path.name)
            if size is not None and path.stat().st_size == int(size[1]):
                return path
    except OSError:
        pass
    return None


def options() -> str:
    """What to tell Java, so that it uses the archive."""
    path = find()
    # Spark takes options apart at spaces.
    return "" if path is None or " " in str(path) else f"-XX:SharedArchiveFile={path} {_SILENT}"


def options_to_write(path: Path) -> str:
    """What to tell Java, so that it writes an archive of the classes it has loaded when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_SILENT}"


def keep(written: Path) -> Path:
    """Put an archive that Java has written where sessions find it."""
    size = written.stat().st_size
    with written.open("rb") as file:
        os.fsync(file.fileno())
    kept = folder() / f"{_prefix()}-{size}.jsa"
    written.rename(kept)
    for other in folder().glob(f"{_prefix()}-*.jsa"):
        if other != kept:
            other.unlink(missing_ok=True)
    return kept
