"""The reference in the docs and the JSON schema follow the model."""

import json
import re
from pathlib import Path

import pytest
import yaml

from testbed.scenario import Confine, Data, Fleet, Job, Scenario, Workload, parse
from testbed.scenario.loader import LATER
from testbed.scenario.packaged import packaged_scenarios
from testbed.scenario.population import DrawnJobs
from testbed.scenario.schema import BEGIN, json_schema, markdown, schema_text
from tests.unit.scenario.conftest import PLAIN
from tests.unit.scenario.json_schema import problems, schema_of

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "scenario.md"
PACKAGED = packaged_scenarios().values()


def test_the_docs_hold_the_reference() -> None:
    text = DOCS.read_text()
    assert text[text.index(BEGIN) :] == markdown(), "run: venn scenario schema --markdown, and put it at the end"


@pytest.mark.parametrize("model", [Scenario, Data, Job, Workload, DrawnJobs, Fleet, Confine])
def test_every_key_is_explained(model: type[Scenario]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, f"{model.__name__}.{name}"
        assert field.description.rstrip().endswith((".", "`"))
        assert f"| `{name}` |" in markdown()


def test_no_key_both_exists_and_comes_later() -> None:
    for kind, model in (("job", Job), ("fleet", Fleet)):
        assert not LATER[kind].keys() & model.model_fields.keys()


def test_the_schema_knows_every_key_of_the_demo() -> None:
    schema = json_schema()
    document = yaml.safe_load(PLAIN)
    assert document.keys() <= schema["properties"].keys()
    for section, definition in (("jobs", "Job"), ("fleets", "Fleet"), ("data", "Data")):
        for entry in document[section].values():
            assert entry.keys() <= schema["$defs"][definition]["properties"].keys()
    assert document["every_job"].keys() <= schema["$defs"]["EveryJob"]["properties"].keys()
    assert "required" not in schema["$defs"]["Job"]
    assert set(schema["required"]) == {"version", "name"}


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL))
def test_the_examples_of_the_docs_are_right(folder: Path, block: str) -> None:
    parse(block, folder=folder)


@pytest.mark.parametrize("file", PACKAGED, ids=lambda file: str(file.relative_to(ROOT)))
def test_each_scenario_names_the_schema_for_editors_and_fits_it(file: Path) -> None:
    schema = schema_of(file)
    assert schema == json.loads(schema_text()), "run: venn scenario schema > examples/scenario.schema.json"
    assert not list(problems(yaml.safe_load(file.read_text()), schema, schema))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"jobs": {"a": {"demnd": 3}}}, ".jobs.a.demnd: no such key"),
        ({"seed": -1}, ".seed: -1 is out of range of 0"),
        ({"backend": "cloud"}, ".backend: 'cloud' is not as ['process', 'compose', 'sim'] demands"),
        ({"fleets": {"a": {"count": "many"}}}, ".fleets.a.count: 'many' is no integer"),
    ],
)
def test_editors_are_told_of_mistakes(wrong: dict[str, object], told: str) -> None:
    schema = json_schema()
    assert list(problems({"version": 1, "name": "x", **wrong}, schema, schema)) == [told]
