"""What every page has to be: whole without a network, readable on a phone and in the dark, with a table of contents."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

PHONE_PX = 412.0
LEAST_PX = 11.0
MARGINS_PX = 36  # of a page on a phone, both

_FIGURE = re.compile(r"<figure [^>]*>(.*?)</figure>", re.DOTALL)
_SVG = re.compile(r'<svg [^>]*style="min-width: (\d+)px; max-width: (\d+)px"[^>]*>')
_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ')
_TEXT_PX = re.compile(r"<text [^>]*?font(?:-size)?: (?:bold )?([\d.]+)px")


class Tags(HTMLParser):
    """Which tags a page has, and whether each is closed."""

    VOID = frozenset({"meta", "br", "path", "use", "rect", "image"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self._open.pop() == tag


def check_page(page: str) -> None:
    """Hold a page against all of it."""
    _stands_alone(page)
    _contents_lead_to_sections(page)
    assert '<meta name="color-scheme" content="light dark">' in page
    assert "@media screen and (prefers-color-scheme: dark)" in page
    for figure in _FIGURE.findall(page):
        _is_readable(figure)
    narrow = re.findall(r'<figure class="scroll narrow"[^>]*><svg [^>]*style="min-width: (\d+)px', page)
    assert len(narrow) == page.count('<figure class="scroll broad"')
    assert all(int(width) <= PHONE_PX - MARGINS_PX for width in narrow), "a narrow figure fits a phone whole"
    assert page.count("<svg") == len(_FIGURE.findall(page))
    for before, _ in pairwise(re.split(r"<table", page)):
        assert before.endswith('<div class="scroll">'), "a table is in a box of its own, which scrolls"


def _stands_alone(page: str) -> None:
    tags = Tags(page).seen
    assert not {"link", "img", "iframe"} & set(tags)
    assert not re.search(r"""(?:src|href)=["'](?!#)|url\((?!#)""", page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert tags.count("script") == 1
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page


def _contents_lead_to_sections(page: str) -> None:
    """Numbered from 1, in the order of the page; the first one says why jobs waited."""
    contents = re.findall(r'<li><a href="#([^"]+)"><span class="n">(\d+)</span>([^<]+)</a></li>', page)
    sections = re.findall(r'<section id="([^"]+)">\s*<h2><span class="n">(\d+)</span>([^<]+)</h2>', page)
    assert contents == sections
    assert contents[0] == ("waits", "1", "Why did it wait?")
    assert [number for _, number, _ in contents] == [str(place) for place in range(1, len(contents) + 1)]
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def _is_readable(figure: str) -> None:
    """On a phone its text keeps its least size, by being wider than the phone; its colours are the page's."""
    head, box = _SVG.search(figure), _BOX.search(figure)
    assert head is not None
    assert box is not None
    width_px = max(min(PHONE_PX, float(head[2])), float(head[1]))
    sizes = [float(size) for size in _TEXT_PX.findall(figure)]
    assert sizes
    assert min(sizes) * width_px / float(box[1]) >= LEAST_PX
    assert not re.search(r"(?:fill|stroke): #", figure)
