"""What the site is built from (docs/site/hooks.py); ``make docs`` builds it, and fails on a dead link."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
pytest.importorskip("mkdocs", reason="the site needs venn-testbed[docs]")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("html", "loads"),
    [
        ('<script src="https://unpkg.com/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.googleapis.com/css">', True),
        ("<img class=wide src=https://example.org/a.png>", True),
        ('<a href="https://arxiv.org/abs/2312.08298">the paper</a><script src="site/x.js"></script>', False),
    ],
)
def test_a_page_loads_nothing_from_elsewhere(hooks: ModuleType, tmp_path: Path, html: str, loads: bool) -> None:
    (tmp_path / "page.html").write_text(html)
    if loads:
        with pytest.raises(hooks.PluginError, match="loads from elsewhere"):
            hooks.on_post_build(SimpleNamespace(site_dir=tmp_path))
    else:
        hooks.on_post_build(SimpleNamespace(site_dir=tmp_path))


def test_every_command_is_in_the_reference(hooks: ModuleType) -> None:
    page = "\n".join(hooks._commands())
    assert {"venn run", "venn agent", "venn agent doctor", "venn job check", "venn scenario schema"} <= set(
        re.findall(r"^### (.*)$", page, re.MULTILINE)
    )
    assert "| `--policy " in page


def test_the_comment_of_a_field_is_its_text_in_the_reference() -> None:
    griffe = pytest.importorskip("griffe", reason="the site needs venn-testbed[docs]")
    extensions = griffe.load_extensions(str(ROOT / "docs" / "site" / "comments.py"))
    plan = griffe.load("coordinator.engine.plan", search_paths=[str(ROOT)], extensions=extensions)
    assert plan["RequestView.arrival"].docstring.value == "of the job, engine time"
    assert plan["RequestView.job"].docstring is None
