"""Requirements: their canonical text, which identifies a job group, is no other requirement's."""

import dataclasses

import pytest

from coordinator.engine.effects import OfferLease
from coordinator.engine.ids import DeviceId
from coordinator.engine.lifecycle import InvariantError
from coordinator.engine.regions import Regions
from coordinator.engine.requirements import AllDevices, Any, Capabilities, Comparison, Every, Ids, Not, Requirement
from testbed.testing.engine import ScriptedEngine, needs
from venn.wire.requirements import parse_requirement

CONSENT = Every((Comparison("consent", "=", "yes"), Comparison("memory", ">=", 4e9)))
NAMES = ("a", "a = b and b", "not a", '"a"')
VALUES = ("b", "b and b = b", "b or b = b", '"b"', "5", 5.0, "all")
IDS = (("b",), ("b; c",), ("b", "c"))


def small_requirements() -> list[Requirement]:
    """All requirements of one or two parts, made of words that look like other requirements."""
    leaves: list[Requirement] = [Comparison(name, "=", value) for name in NAMES for value in VALUES]
    leaves += [AllDevices(), *(Ids(tuple(map(DeviceId, ids))) for ids in IDS)]
    pairs = [kind((one, other)) for kind in (Every, Any) for one in leaves for other in leaves]
    return [*leaves, *map(Not, leaves), *pairs]


def test_no_two_requirements_have_one_text() -> None:
    made = small_requirements()
    assert len(made) > 2000
    assert len({str(one) for one in made}) == len(made)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CONSENT, Comparison("consent", "=", "yes and memory >= 4000000000")),
        (CONSENT, Comparison("consent = yes and memory", ">=", 4e9)),
        (Comparison("slot", "=", 5.0), Comparison("slot", "=", "5")),
        (Comparison("site", "=", 'a" or site = "b'), Any((Comparison("site", "=", "a"), Comparison("site", "=", "b")))),
        (Ids((DeviceId("a; b"),)), Ids((DeviceId("a"), DeviceId("b")))),
        (AllDevices(), Comparison("all", "=", "all")),
    ],
)
def test_a_name_or_a_text_cannot_pass_for_another_requirement(one: Requirement, other: Requirement) -> None:
    assert str(one) != str(other)
    regions = Regions(10)
    assert regions.add_job(one, "") is not regions.add_job(other, "")


@pytest.mark.parametrize("text", ["all", "memory >= 4 and site = lab", 'slot = "5"', 'site = "north lab"', "slot = 5"])
def test_the_text_is_that_of_the_scenario_file(text: str) -> None:
    message = parse_requirement(text).comparison
    if message.WhichOneof("value") == "text":
        assert str(Comparison(message.name, "=", message.text)) == text


def test_a_strangers_job_neither_starves_nor_widens_the_group_of_another() -> None:
    """The stranger's job is there first: a group is checked by its first job's requirement."""
    for stranger in (
        Comparison("consent", "=", "yes and memory >= 4000000000"),
        Comparison("consent = yes and memory", ">=", 4e9),
    ):
        play = ScriptedEngine()
        play.job("stranger", **needs(stranger, ""))
        play.request("victim", demand=2, **needs(CONSENT, ""))
        play.check_in("bad", numbers={"consent = yes and memory": 8e9, "memory": 8e9})
        assert not play.got(OfferLease)
        play.check_in("good", numbers={"memory": 8e9}, labels={"consent": frozenset({"yes"})})
        assert play.one(OfferLease).device == "good"


def test_a_number_and_a_text_that_look_alike_are_two_groups() -> None:
    play = ScriptedEngine()
    play.request("text", demand=1, **needs(Comparison("slot", "=", "5"), ""))
    play.request("number", demand=1, **needs(Comparison("slot", "=", 5.0), ""))
    play.check_in("n", numbers={"slot": 5.0})
    assert play.one(OfferLease).job == "me/number/1"
    play.check_in("t", labels={"slot": frozenset({"5"})})
    assert play.one(OfferLease).job == "me/text/1"


def test_each_lease_is_checked_against_its_own_jobs_requirement() -> None:
    play = ScriptedEngine()
    request = play.request("a", demand=1)
    job = request.job
    job.spec = dataclasses.replace(job.spec, requirement=Comparison("memory", ">=", 4.0))  # not what its group says
    with pytest.raises(InvariantError, match=r"one was to be leased to me/a/1 .* memory >= 4"):
        play.check_in("one", numbers={"memory": 2.0})


def test_capabilities_that_were_made_up_match_nothing_else() -> None:
    odd = Capabilities({"consent = yes and memory": 8e9}, {})
    assert not CONSENT.matches(DeviceId("bad"), odd)
