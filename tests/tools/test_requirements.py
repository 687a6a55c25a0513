"""The lock files fit `pyproject.toml`: what is installed from them is what the project asks for, on each Python."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ["3.11", "3.12", "3.13"]
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[.*\])?==(?P<version>[^ ;\\]+)( ; (?P<marker>[^\\]+))? \\$")


def environment(python: str) -> dict[str, str]:
    return {**default_environment(), "python_version": python, "python_full_version": f"{python}.1", "extra": ""}


def pins(file: str, python: str) -> dict[str, str]:
    """The versions that this Python gets, by name. Each line of a pin is followed by its hashes."""
    found = {}
    for block in re.split(r"\n(?=\S)", (ROOT / "requirements" / file).read_text().strip()):
        first, *hashes = block.splitlines()
        pin = _PIN.match(first)
        assert pin is not None, first
        assert hashes, first
        assert all(line.strip().startswith("--hash=sha256:") for line in hashes), first
        marker = Requirement(f"x ; {pin['marker']}").marker if pin["marker"] else None
        if marker is None or marker.evaluate(environment(python)):
            name = canonicalize_name(pin["name"])
            assert name not in found, f"{name} has two versions for Python {python}"
            found[name] = pin["version"]
    return found


def asked_for(extra: str, python: str) -> Iterator[Requirement]:
    """The project's requirements with those of an extra, and of the extras that it names."""
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    left, known = [extra], set()
    while left:
        known.add(name := left.pop())
        for line in extras[name]:
            requirement = Requirement(line)
            if requirement.name == PROJECT["project"]["name"]:
                left += requirement.extras - known
            else:
                lines.append(line)
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(environment(python)):
            yield requirement


def misfits(requirements: Iterator[Requirement], pinned: dict[str, str]) -> list[str]:
    found = []
    for requirement in requirements:
        version = pinned.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement}: locked is {version}")
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_project_asks_for_is_locked(python):
    assert misfits(asked_for("dev", python), pins("dev.txt", python)) == [], "run `make lock`"


@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_documentation_asks_for_is_locked(python):
    asked = map(Requirement, PROJECT["dependency-groups"]["docs"])

    assert misfits(asked, pins("docs.txt", python)) == [], "run `make lock`"


def test_every_supported_python_is_locked():
    named = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}

    assert named == set(PYTHONS)


def test_what_locked_packages_ask_for_fits_what_is_locked():
    """For the Python that runs, whose packages say what they ask for."""
    python = ".".join(map(str, sys.version_info[:2]))
    pinned = pins("dev.txt", python)
    found = []
    for name in pinned:
        try:
            lines = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        asked = (Requirement(line) for line in lines)
        needed = (each for each in asked if each.marker is None or each.marker.evaluate(environment(python)))
        found += [f"{name} asks for {misfit}" for misfit in misfits(needed, pinned)]

    assert found == []


@pytest.mark.parametrize(
    ("pinned", "complaint"),
    [({"pandas": "3.0"}, "pandas<3,>=2.2: locked is 3.0"), ({}, "pandas<3,>=2.2: locked is None")],
    ids=["another version", "not at all"],
)
def test_what_does_not_fit_is_found(pinned, complaint):
    assert misfits(iter([Requirement("pandas>=2.2,<3")]), pinned) == [complaint]
