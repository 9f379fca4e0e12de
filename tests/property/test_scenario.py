"""A scenario that is written out in full and read again is the same scenario."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.scenario import Data, Fleet, Job, Scenario, ScenarioError, Workload, parse
from testbed.scenario.expect import OPERATORS, Expectation
from testbed.world.data import DIGITS
from venn.wire.notation import (
    Constant,
    Distribution,
    Exponential,
    LogNormal,
    Uniform,
)

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True)
# Names that a YAML reader could take for something else.
TRICKY = st.sampled_from(["no", "on", "yes", "null", "true", "1", "007", "1e3", "0x1f", "1-2"])
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
COUNTS = st.integers(1, 1_000_000)
SECONDS = st.one_of(st.integers(1, 86_400).map(float), st.floats(1e-6, 1e6, allow_nan=False))
PARTS = st.integers(1, 10_000).map(lambda part: Fraction(part, 10_000))
NUMBERS = st.one_of(st.integers(1, 10**12).map(float), st.floats(1e-3, 1e12))
PARAMETERS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
)


@st.composite
def distributions(draw: st.DrawFn, unit: str) -> Distribution:
    values = st.integers(1, 10**13).map(float) if unit == "bytes" else NUMBERS
    low, high = sorted([draw(values), draw(values)])
    return draw(
        st.sampled_from(
            [
                Constant(low, unit),
                Uniform(low, high, unit),
                Exponential(low, unit),
                LogNormal(low, draw(st.floats(0, 5)), unit),
            ]
        )
    )


@st.composite
def jobs(draw: st.DrawFn, folder: Path, data: list[str], requirements: list[str]) -> Job:
    exact = draw(st.booleans())
    rounds = draw(COUNTS)
    repeat = draw(st.sampled_from(["once", "allow"]))
    return Job(
        file=folder / "job.py",
        requirement=draw(st.sampled_from(["all", "cpu >= 0.5 or not site = lab", *requirements])),
        data=draw(st.sampled_from([None, *data])),
        demand=draw(COUNTS) if repeat == "allow" else 1,  # one device is sure to be eligible
        repeat=repeat,
        over_commit=draw(PARTS),
        min_response=draw(PARTS),
        deadline=draw(SECONDS),
        lease=draw(st.none() | SECONDS),
        stragglers=draw(st.sampled_from(["finish", "revoke"])),
        rounds=rounds if exact else None,
        max_rounds=None if exact else rounds,
        params=draw(
            st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True), PARAMETERS, max_size=4)
        ),
        workload=Workload(compute=draw(st.just(0.0) | SECONDS)),
        deterministic=draw(st.booleans()),
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(1, 20))
    comes_and_goes = draw(st.booleans())
    values = st.lists(WORDS, min_size=1, max_size=3, unique=True).map(tuple)
    return Fleet(
        count=count,
        cpu=draw(distributions("number")),
        memory=draw(st.none() | distributions("bytes")),
        os=draw(st.none() | distributions("number")),
        labels=draw(st.dictionaries(st.sampled_from(["site", "no", "room_1"]), values)),
        session=draw(distributions("duration")) if comes_and_goes else None,
        gap=draw(distributions("duration")) if comes_and_goes else None,
        crash=draw(PARTS) if comes_and_goes else Fraction(0),
        tasks_per_session=draw(st.integers(0, 9)),
        tasks_per_day=draw(st.integers(0, 9)),
        processes=draw(st.integers(1, count)),
    )


@st.composite
def scenarios(draw: st.DrawFn, folder: Path) -> Scenario:
    requirements = draw(st.lists(NAMES.filter(lambda name: name != "all"), max_size=3, unique=True))
    data = draw(st.lists(NAMES | TRICKY, max_size=3, unique=True))
    named = draw(st.dictionaries(NAMES | TRICKY, jobs(folder, data, requirements), min_size=1, max_size=3))
    # One fleet that any job here can use; the others are as they come.
    serving = Fleet(count=1, cpu=Constant(1.0))
    return Scenario(
        version=1,
        name=draw(NAMES | TRICKY),
        seed=draw(st.integers(0, 2**63 - 1)),
        duration=draw(SECONDS),
        time_scale=draw(NUMBERS),
        requirements=dict.fromkeys(requirements, "cpu > 0.25 and (fleet != a or cpu < 3)"),
        data={
            name: Data(source=DIGITS, split=draw(st.sampled_from(["iid", "dirichlet(0.5)"])), held_out=Fraction(1, 8))
            for name in data
        },
        jobs=named,
        fleets={**draw(st.dictionaries(NAMES | TRICKY, fleets(), max_size=3)), "serving": serving},
        expect=[
            Expectation(
                ("jobs", draw(st.sampled_from(sorted(named))), "jct_s"),
                draw(st.sampled_from(sorted(OPERATORS))),
                "1.50",
            )
        ],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenario")
    (folder / "job.py").write_text("job = 1\n")
    return folder


def test_what_is_dumped_loads_to_an_equal_scenario(folder: Path) -> None:
    @settings(max_examples=60)
    @given(scenarios(folder))
    def check(scenario: Scenario) -> None:
        text = scenario.dump()
        again = parse(text, folder=Path("/nowhere"))
        assert again == scenario
        assert again.dump() == text

    check()


@given(st.text(max_size=200) | st.dictionaries(st.text(max_size=9), st.text(max_size=9), min_size=1).map(str))
def test_no_text_makes_a_traceback(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert all("\n" not in str(problem) for problem in caught.value.problems)
