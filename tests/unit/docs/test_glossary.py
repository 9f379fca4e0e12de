"""Each page links a term to the glossary where it first uses it in its text: not in headings, tables and code."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
GLOSSARY = DOCS / "glossary.md"
PAGES = sorted({*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), DOCS.parent / "README.md"} - {GLOSSARY})
TERMS = {
    "agent": "agents?",
    "attempt": "attempts?",
    "auditor": "auditors?",
    "backend": "backends?",
    "capability": "(?<!without )capabilit(?:y|ies)",  # not those of Linux
    "check-in": "check-ins?",
    "check-in-path": r"check-in\s+path",
    "checkpoint": "checkpoints?",
    "churn": "churn",
    "compiled-path": r"compiled\s+path",
    "cooling": "cool(?:s|ing)?",
    "coordinator": "coordinators?",
    "digest": "digests?",
    "driver": "drivers?",
    "eligible": "eligible",
    "engine": r"(?<!docker\s)(?<!container\s)engines?",  # not Docker's
    "event-path": r"event\s+path",
    "fair-share": r"fair\s+shares?",
    "fleet": "fleets?",
    "gap": "gaps?",
    "incarnation": "incarnations?",
    "jct": "JCTs?",
    "job-group": r"job\s+groups?",
    "journal": "journals?",
    "lease": "leases?",
    "liveness-interval": r"liveness\s+interval",
    "manifest": "(?<!run's )manifests?",  # not run.json
    "over-commitment": "over-commitment",
    "population": "populations?",
    "receipt": "receipts?",
    "region": "regions?",
    "relay": "relays?",
    "replay": "replay",
    "requirement": "requirements?",
    "response-collection-time": r"response\s+collection\s+times?",
    "run-folder": r"run\s+folders?",
    "scenario": "scenarios?",
    "scheduling-delay": r"scheduling\s+delays?",
    "seed": "(?<!hash )seeds?",  # not that of hashes of Python
    "session": "sessions?",
    "spare-place": r"spare\s+places?",
    "spool": "spools?",
    "staleness": "staleness",
    "straggler": "stragglers?",
    "supply": "supply",
    "swarm": "swarms?",
    "ticket": "tickets?",
    "tier": "tiers?",
    "timeline": "timelines?",
    "turn": r"(?<!in\s)turn",  # not what turns, nor what takes turns
    "virtual-time": r"virtual\s+time",
}
GENERATED = re.compile(r"<!-- made by .*", re.DOTALL)
NO_TEXT = re.compile(
    r"^```.*?^```$"  # code
    r"|^ {4}.*?$|``.*?``|`[^`]*`"
    r"|^#.*?$|^\|.*?$"  # headings, rows of tables
    r"|!\[.*?\]|\]\([^)]*\)",  # what a picture shows, where a link leads
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def text_of(page: str) -> str:
    """The page, as long as before, with blanks for what is no text."""
    for other in (GENERATED, NO_TEXT):
        page = other.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), page)
    return page


def first_use(page: str, term: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w-]){TERMS[term]}(?![\w-])", text_of(page), re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_first_use_of_a_term_is_a_link(path: Path) -> None:
    page = path.read_text()
    for term in TERMS:
        if used := first_use(page, term):
            links = [link for link in LINK.finditer(page) if link.start() < used.start() and used.end() < link.end()]
            line = page.count("\n", 0, used.start()) + 1
            assert links, f"{path.name}:{line}: link this first {used[0]!r} to glossary.md#{term}"


def test_every_link_to_the_glossary_leads_to_a_term() -> None:
    known = {heading.lower().replace(" ", "-") for heading in re.findall(r"^### (.*)$", GLOSSARY.read_text(), re.M)}
    assert TERMS.keys() <= known
    assert set(re.findall(r"\]\(#([^)]*)\)", GLOSSARY.read_text())) <= known
    for path in PAGES:
        assert set(re.findall(r"glossary\.md#([^)]*)\)", path.read_text())) <= known, path.name
