"""The docstring of a thing starts with what it is or does, not with a condition or what it refers to."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("containers", "coordinator", "device_agent", "docs", "examples", "job_driver", "protos", "testbed")
AVOIDED = re.compile(
    r"(\.\.\.|(After|As|At|Away|Before|Beside|Both|By|Could|Enough|False|For|From|Got|If|In|It|Not|Of|On|Only|Over|Past"
    r"|Raises|Since|So|That|There|Those|Through|To|Too|True|Twice|Until|Where|Whom|With|Without|Would)\b)"
)


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.splitlines()[0]


def avoided(source: str) -> list[str]:
    return [f"{number}: {line}" for number, line in first_lines(source) if AVOIDED.match(line)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_starts_with_what_it_is_or_does(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in avoided(path.read_text())]
    assert not found, "\n".join(found)


def test_finds_a_private_method() -> None:
    source = 'class A:\n    """A thing."""\n\n    async def _b(self):\n        """Of a session."""\n'
    assert avoided(source) == ["5: Of a session."]
