"""A scenario as YAML again: every key, resolved, in the notation, so that it loads to an equal one."""

from typing import Any

import yaml

from testbed.scenario.model import Scenario
from testbed.scenario.scalars import Surprise, plain_scalar

WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Quotes every text that ``scalars`` would not read back as the same text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = plain_scalar(text) == text
    except Surprise:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def dump(scenario: Scenario) -> str:
    """YAML text; keys that say nothing (no limit, not stated) are left out."""
    values = scenario.model_dump(mode="python", exclude_none=True)
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=WIDTH)
