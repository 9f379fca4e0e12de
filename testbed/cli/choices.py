"""What a shell may offer for a value (``autocompletion`` of an argument or option), given the part that is typed."""

from glob import escape
from pathlib import Path

from coordinator.policies.registry import policy_names
from testbed.scenario.packaged import packaged_scenarios


def scenarios(incomplete: str) -> list[str]:
    """The names of packaged scenarios, and YAML files here and one folder below."""
    files = [str(path) for part in ("*.yaml", "*/*.yaml") for path in Path().glob(escape(incomplete) + part)]
    return [*packaged_scenarios(), *sorted(files)]


def policies(incomplete: str) -> list[str]:
    """The names of installed policies."""
    return [name for name in policy_names() if name.startswith(incomplete)]
