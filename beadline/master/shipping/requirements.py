"""Packages that a program requires: installed once on the driver's machine, kept in the user's cache as an archive."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import xxhash

from beadline.errors import EnvironmentSetupError
from beadline.master.shipping.dependencies import Requirements
from beadline.master.spark import class_archive

_LOG = logging.getLogger("beadline")
_LINES_OF_PIP = 6


def requirements_archive(requirements: Requirements) -> Path:
    """The archive of a requirements file's packages, for this version of Python; made if it is not there yet."""
    folder = class_archive.folder() / "requirements"
    kept = folder / f"{_digest(requirements)}.zip"
    if kept.exists():
        return kept
    _LOG.info("installing the job's requirements (%s) ...", requirements.file)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="installing-", dir=folder) as draft:
        packages = os.path.join(draft, "packages")
        _install(requirements, packages)
        made = os.path.join(draft, "packages.zip")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for here, _, names in os.walk(packages):
                for name in sorted(names):
                    path = os.path.join(here, name)
                    if not name.endswith(".pyc"):
                        archive.write(path, os.path.relpath(path, packages))
            archive.writestr(".installed", requirements.file)  # an archive of nothing can't be unpacked
        with open(made, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(made, kept)  # of two that install at once, either is right
    return kept


def _install(requirements: Requirements, target: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--target", target, "-r", requirements.file]
    if requirements.packages is not None:
        command += ["--no-index", "--find-links", requirements.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    said = "\n".join(f"  {line}" for line in errors[-_LINES_OF_PIP:])
    source = f"the files in {requirements.packages}" if requirements.packages is not None else "pip's package index"
    raise EnvironmentSetupError(
        f"the requirements in {requirements.file} could not be installed from {source} for {sys.executable}:\n{said}\n"
        "Without an index, download the packages with 'pip download -d FOLDER -r FILE' and give that folder as "
        "requirements_cache_dir."
    )


def _digest(requirements: Requirements) -> str:
    digest = xxhash.xxh3_128(f"{sys.version_info[:2]} {sysconfig.get_platform()}".encode())
    for file in _files(requirements.file, []):
        digest.update(file.read_bytes())
    if requirements.packages is not None:
        for package in sorted(Path(requirements.packages).iterdir()):
            if package.is_file():
                digest.update(package.name.encode())
                with package.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        digest.update(block)
    return digest.hexdigest()


def _files(file: str, seen: list[Path]) -> list[Path]:
    """A requirements file, and those that it refers to."""
    path = Path(file)
    if path in seen or not path.is_file():
        return seen
    seen.append(path)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        for option in ("-r", "--requirement", "-c", "--constraint"):
            if line.strip().startswith((option + " ", option + "=")):
                _files(str(path.parent / line.strip()[len(option) + 1 :].strip()), seen)
    return seen
