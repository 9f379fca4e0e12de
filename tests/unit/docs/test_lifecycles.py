"""The life-cycle diagrams of docs/pictures show the tables of the code, edge by edge."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.site.lifecycles import LIFECYCLES, PICTURES, Edge

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str) -> Iterator[Edge]:
    """The edges in a committed picture, but for the one that shows where the life begins."""
    for group in ElementTree.parse(PICTURES / f"lifecycle-{name}.svg").iter(f"{SVG}g"):
        before, _, after = (group.findtext(f"{SVG}title") or "").partition("->")
        if group.get("class") == "edge" and before != "start":
            for step in (group.findtext(f"{SVG}text") or "").split(", "):
                yield Edge(before, after, step)


@pytest.mark.parametrize("name", LIFECYCLES)
def test_a_picture_shows_its_table(name: str) -> None:
    edges = list(LIFECYCLES[name].edges())
    shown = list(drawn(name))
    assert len(shown) == len(edges)
    assert set(shown) == set(edges), f"lifecycle-{name}.svg is out of date: run `make pictures`"


@pytest.mark.parametrize("name", LIFECYCLES)
def test_a_picture_is_on_a_page(name: str) -> None:
    assert any(f"pictures/lifecycle-{name}.svg" in page.read_text() for page in DOCS.glob("*.md"))
