"""The tests that docs/testing-a-policy.md shows pass."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
(CODE,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing-a-policy.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("name", re.findall(r"^def (test_\w+)", CODE, re.MULTILINE))
def test_the_tests_of_the_page_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "policies"))
    names: dict[str, object] = {}
    exec(CODE, names)  # our own page
    names[name]()  # type: ignore[operator]
