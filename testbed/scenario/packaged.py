"""The scenarios that come with the testbed: in ``examples/`` of a checkout, in ``testbed/packaged`` of a wheel.

Those of the evaluation of Venn are in ``workloads/`` below, those that break things in ``stress/``, those that are held
against real runs in ``fidelity/``; they go by their names too.
"""

from pathlib import Path

from testbed.scenario.errors import Problem, ScenarioError, known
from venn.wire.text import did_you_mean

_TESTBED = Path(__file__).parents[1]
_SETS = ("workloads", "stress", "fidelity")
_FOLDERS = (_TESTBED / "packaged", _TESTBED.parent / "examples")


def packaged_folder() -> Path:
    """The folder of the packaged scenarios. Raises ScenarioError: they are not installed."""
    for folder in _FOLDERS:
        if any(folder.glob("*.yaml")):
            return folder
    raise ScenarioError([Problem("packaged scenarios", "are not installed", "install venn-testbed again")])


def packaged_scenarios() -> dict[str, Path]:
    """The files of the packaged scenarios, by name."""
    folder = packaged_folder()
    return {
        path.stem: path
        for place in (folder, *(folder / name for name in _SETS))
        for path in sorted(place.glob("*.yaml"))
    }


def packaged(name: str) -> Path:
    """The file of a packaged scenario. Raises ScenarioError."""
    scenarios = packaged_scenarios()
    if name not in scenarios:
        raise ScenarioError(
            [Problem(name, "no such file, and no such scenario comes with the testbed", known(name, sorted(scenarios)))]
        )
    return scenarios[name]


def named(text: str) -> Path:
    """The file that a user means by ``text``: a path, or the bare name of a packaged scenario.

    Raises ScenarioError: it is a folder, a bare name that is neither, or a file that is not there, named like one
    beside it or like a packaged scenario.
    """
    path = Path(text)
    if path.is_dir():
        files = sorted(path.glob("*.yaml"))
        fix = f"name the file in it: {files[0]}" if files else "name a scenario file; `venn new` makes one"
        raise ScenarioError([Problem(text, "is a folder, not a scenario file", fix)])
    if path.exists():
        return path
    if path.name == text and not path.suffix:
        return packaged(text)
    if path.suffix in (".yaml", ".yml"):
        fix = did_you_mean(text, map(str, path.parent.glob("*.y*ml")))
        if not fix and (meant := did_you_mean(path.stem, packaged_scenarios())):
            fix = f"{meant} It comes with the testbed, and goes by its name"
        if fix:
            raise ScenarioError([Problem(text, "no such file", fix)])
    return path
