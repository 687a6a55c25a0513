"""Links between pages lead somewhere, and to a heading that is there. Reference pages say what the code says."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import DOCS, ROOT, pages

_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that headings get, as in GitHub and in MkDocs."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def links(page: Path) -> Iterator[str]:
    for match in _LINK.finditer(_CODE.sub("", page.read_text())):
        link = match[1] or match[2]
        if "://" not in link:
            yield link


@pytest.mark.parametrize("page", [page for page in pages() if page.exists()], ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
        # The site consists of docs/ alone: what is elsewhere can't be linked from there.
        if page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    missing = [
        str(page.relative_to(DOCS))
        for page in sorted(DOCS.rglob("*.md"))
        if str(page.relative_to(DOCS)) not in navigation
    ]

    assert missing == []


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "_tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(reference().PAGES))
def test_reference_pages_say_what_the_code_says(name: str) -> None:
    if name == "configuration.md":
        pytest.importorskip("beadline.datastream.environment.catalogue")
    assert (DOCS / "reference" / name).read_text() == reference().PAGES[name](), (
        "run `make reference`, and commit the change"
    )
