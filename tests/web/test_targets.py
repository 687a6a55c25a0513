"""Which paths requests may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.web.targets import PathRefused, checked_path


@pytest.mark.parametrize(
    "path", ["/savepoints", "file:///savepoints", "file:/savepoints/a b", "s3://bucket/savepoints"]
)
def test_who_has_the_token_may_name_any_directory(path: str) -> None:
    assert checked_path(path, None) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "relative/path",
        "file:relative",
        "/savepoints/../etc",
        "file:///savepoints/%2e%2e/etc",
        "s3://bucket/a/../b",
        "/savepoints/..",
        "/savepoints\n/x",
        "/savepoints\0",
        "/" + "x" * 5000,
    ],
)
def test_tricks_are_refused_whoever_asks(path: str) -> None:
    for allowed in (None, ["/savepoints", "/"]):
        with pytest.raises(PathRefused):
            checked_path(path, allowed)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    file.write_text("hunter2")
    with pytest.raises(PathRefused, match="is a file") as raised:
        checked_path(str(file), None)
    assert "hunter2" not in str(raised.value)


def test_without_a_token_only_what_is_configured(tmp_path: Path) -> None:
    allowed = [f"file://{tmp_path}/savepoints", "s3://bucket/savepoints"]
    for path in (f"{tmp_path}/savepoints", f"{tmp_path}/savepoints/new", "s3://bucket/savepoints/x"):
        assert checked_path(path, allowed) == path
    for path in ("/etc", f"{tmp_path}", f"{tmp_path}/savepoints-of-others", "s3://bucket/savepoints2", "s3://other/x"):
        with pytest.raises(PathRefused, match="must lie in those that are configured"):
            checked_path(path, allowed)


def test_a_symbolic_link_does_not_lead_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "savepoints", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    with pytest.raises(PathRefused, match="must lie in those"):
        checked_path(str(inside / "link" / "new"), [str(inside)])


def test_nothing_is_configured() -> None:
    with pytest.raises(PathRefused, match="none is configured"):
        checked_path("/savepoints", [])
