"""What the site has beyond docs/: README.md as its start, references made from the code, files that pages link to."""

import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from testbed.cli.commands import GROUPS
from testbed.cli.completion import BELOW
from venn.wire.command import find_command

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((\.\./[^)#]+)\)")
LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source|video)\b[^>]*\b(?:src|srcset|href)=["']?(?:https?:)?//[^>]*>"""
)
FROM_ROOT = re.compile(r"\]\(docs/")
TYPES = {
    "job-files": (
        "Types of a job file",
        "[Writing a job](../writing-a-job.md) explains these types in words.",
        "job_driver",
    ),
    "policies": (
        "Types of a policy",
        "[Writing a policy](../writing-a-policy.md) explains these types in words.",
        "coordinator.engine.plan",
    ),
    "testing": (
        "Tools for tests",
        "[Testing a policy](../testing-a-policy.md) explains these tools in words.",
        "testbed.testing\n    options: {show_submodules: true}",
    ),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are generated, and the files of the repository that pages link to."""
    readme = FROM_ROOT.sub("](", (ROOT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=f"---\nhide: [navigation]\n---\n\n{readme}"))
    files.append(File.generated(config, "reference/commands.md", content="\n".join(_commands())))
    for name, (title, text, module) in TYPES.items():
        content = f"# {title}\n\n{text}\n\n::: {module}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    linked = {path for page in files.documentation_pages() for path in _outside(page.content_string, page)}
    for path in sorted(linked):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links to files outside docs/ lead to their copies."""
    up = "../" * page.file.src_uri.count("/")
    for path in _outside(markdown, page.file):
        markdown = re.sub(rf"\]\((\.\./)+{re.escape(path)}\)", f"]({up}files/{path})", markdown)
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Check that no page loads anything from elsewhere. Raises PluginError."""
    for page in Path(config.site_dir).rglob("*.html"):
        for tag in LOADED.findall(page.read_text()):
            raise PluginError(f"{page}: loads from elsewhere: {tag}")


def _outside(markdown: str, file: File) -> set[str]:
    """Files of the repository outside docs/ that a page links to. A link to what is not there stays, and fails."""
    paths = {posixpath.normpath(posixpath.join("docs", file.src_uri, "..", link)) for link in LINK.findall(markdown)}
    return {path for path in paths if not path.startswith(("docs/", "..")) and (ROOT / path).is_file()}


def _commands() -> Iterator[str]:
    yield "# Commands\n\nThis page is made from the commands themselves: `venn COMMAND --help` says the same."
    for group, commands in GROUPS.items():
        yield f"\n## {group.capitalize()}"
        for row in commands:
            yield from _command(find_command(import_module(row.module).app, row.name), f"venn {row.name}")
            for word, module in BELOW.get(row.name, {}).items():
                yield from _command(find_command(import_module(module).app, word), f"venn {row.name} {word}")


def _command(command: Any, name: str) -> Iterator[str]:
    below = getattr(command, "commands", None)
    if below:
        for word, inner in below.items():
            yield from _command(inner, f"{name} {word}")
        return
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"\n### {name}\n\n{command.help}\n\n    {command.get_usage(context).removeprefix('Usage: ')}\n"
    yield re.sub(r"^Example: (.*)", r"Example: `\1`", command.epilog) + "\n"
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    yield "| option | meaning |\n| --- | --- |"
    for option, meaning in rows:
        yield f"| `{_cell(option)}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
