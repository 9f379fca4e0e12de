"""The key ``churn``: how its entries are read and checked.

How an entry of ``churn`` is read, and what a timeline must be beyond the shape of its entries.

How the limits beside ``limit`` are read in an entry of ``churn``: the keys that a fleet has for its link.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from pydantic import ValidationInfo

from job_driver.settings import PATIENCE_S
from testbed.scenario.errors import Finding, KeyPath, known, shown, wrong
from testbed.scenario.readers import PHONES, as_duration, as_fraction, as_profile, as_rate
from testbed.world.fleets import capabilities_of
from testbed.world.profiles import LINK_FIELDS, load_profile
from testbed.world.timeline import ENDLESS, GENERATORS, MOMENTS, Entry, LinkChange, Verb
from venn.wire.errors import UsageError
from venn.wire.notation import PROGRAMS, Rate, Selector, Whom, format_duration, parse_rate_of, parse_selector

if TYPE_CHECKING:
    from testbed.scenario.model import Scenario
    from testbed.scenario.population import Population

EXAMPLE = "{at: 30s, crash: 25% of flagship}"
_TIMES = ("at", "from", "to", "for")
_ALSO = {"kill": "crash", "restart": "crash", "pause": "suspend", "stop": "suspend", "cut": "disconnect"}


def as_entry(value: object, info: ValidationInfo) -> Entry:
    """One verb with its selector, and its times."""
    if isinstance(value, Entry):
        return value
    if not isinstance(value, Mapping):
        raise wrong(f"{shown(value)} is not an entry of a timeline", f"write e.g. {EXAMPLE}")
    verb = _verb(value)
    of = _selector(verb, value[verb.value])
    times = {key: _seconds(key, value[key], info) for key in _TIMES if key in value}
    _check_times(verb, times)
    change = as_link_change(value, info) if verb is Verb.LIMIT else None
    return Entry(verb, of, times.get("at", times.get("from", 0.0)), times.get("to"), times.get("for"), change)


def _verb(value: Mapping[str, object]) -> Verb:
    words = [key for key in value if key not in (*_TIMES, *KEYS)]
    for word in words:
        if word not in set(Verb):
            also = _ALSO.get(word)
            raise wrong(f"'{word}' is not a verb", f"did you mean {also}?" if also else known(word, Verb))
    if len(words) != 1:
        told = f"has the verbs {' and '.join(words)}" if words else "has no verb"
        raise wrong(f"{told}, and an entry has exactly one", f"write e.g. {EXAMPLE}")
    changes = [key for key in value if key in KEYS]
    if changes and words[0] != Verb.LIMIT:
        raise wrong(
            f"{changes[0]} has no meaning with {words[0]}", f"write limit: {value[words[0]]} in an entry of its own"
        )
    return Verb(words[0])


def _selector(verb: Verb, text: object) -> Selector | Rate:
    try:
        of = parse_rate_of(text) if verb is Verb.CHURN else parse_selector(text)
    except UsageError as error:
        raise wrong(f"{verb}: {error.message}", error.fix) from None
    if isinstance(of, Selector) and of.whom in PROGRAMS:
        _check_program(verb, of)
    return of


def _check_program(verb: Verb, of: Selector) -> None:
    """What a verb does to a program that is no device."""
    if verb not in (Verb.CRASH, Verb.SUSPEND):
        raise wrong(f"{verb}: has no meaning for {of}", "a program can crash or be suspended")


def _seconds(key: str, value: object, info: ValidationInfo) -> float:
    try:
        return as_duration(value, info, positive=key == "for")
    except ValueError as error:
        context = getattr(error, "context", None) or {}
        raise wrong(f"{key}: {context.get('message', error)}", context.get("fix", "")) from None


def _check_times(verb: Verb, times: Mapping[str, float]) -> None:
    over = "from" in times or "to" in times
    if "at" in times and over:
        raise wrong("has both at and from or to", "write at for a moment, from and to for a time")
    if "at" not in times and not over:
        raise wrong("does not say when", "add at: 30s, or from: 30s, to: 60s")
    if over and not {"from", "to"} <= times.keys():
        raise wrong(f"has no {'to' if 'from' in times else 'from'}", "from and to go together")
    if over and times["to"] <= times["from"]:
        raise wrong("to is not after from", "let it end later")
    if verb in GENERATORS and not over:
        raise wrong(f"{verb} needs a time span", "write from: 30s, to: 60s in place of at")
    if verb in MOMENTS and "for" in times:
        raise wrong(f"for: {verb} has no duration", "remove for")
    if "for" not in times and verb not in (*ENDLESS, *MOMENTS):
        raise wrong(f"{verb} does not say for how long", "add e.g. for: 5s")
    if verb in (Verb.FLAP, Verb.DIURNAL) and times["for"] > times["to"] - times["from"]:
        raise wrong("for is longer than the time between from and to", "let it be shorter")


def check_timeline(scenario: "Scenario") -> Iterator[Finding]:
    """Every problem of ``churn`` that a single entry does not show."""
    for number, entry in enumerate(scenario.churn):
        here: KeyPath = ("churn", number)
        of = entry.of.of if isinstance(entry.of, Rate) else entry.of
        if of.whom in PROGRAMS:
            yield from _program(scenario, here, entry, of)
        elif scenario.population is not None:
            yield from _of_population(scenario.population, here, entry, of)
        else:
            yield from _devices(scenario, here, of)
        ends = entry.end_s * scenario.time_scale
        if ends > scenario.duration:
            message = (
                f"ends at {format_duration(ends)}, after the end of the run ({format_duration(scenario.duration)})"
            )
            yield Finding(here, message, "raise duration, or let it end earlier")


def _program(scenario: "Scenario", here: KeyPath, entry: Entry, of: Selector) -> Iterator[Finding]:
    if of.whom is Whom.DRIVER and of.name not in scenario.jobs:
        yield Finding(here, f"there is no job '{of.name}'", known(of.name, scenario.jobs))
    if of.whom is Whom.COORDINATOR and (entry.for_s or 0.0) * scenario.time_scale > PATIENCE_S:
        most = format_duration(PATIENCE_S)
        yield Finding(here, f"for: drivers give up on a coordinator that is away for {most}", "let it be shorter")
    if entry.to_s is not None:
        yield Finding(
            here, f"{of} is a single program, and from and to are for many devices", "write at in place of from and to"
        )


def _of_population(population: "Population", here: KeyPath, entry: Entry, of: Selector) -> Iterator[Finding]:
    """How many devices it means is known when they are made, and told then."""
    if entry.verb is Verb.LIMIT:
        yield Finding(here, "limit: the links of a population do not change", "remove it, or describe fleets")
    if of.whom is Whom.FLEET:
        yield Finding(here, f"there is no fleet '{of.name}': a population has none", "write all, or label=value")
    elif of.whom is Whom.LABEL and population.devices == PHONES:
        yield Finding(here, f"no phone has {of.name}={of.value}: phones have no labels", "write all")


def _devices(scenario: "Scenario", here: KeyPath, of: Selector) -> Iterator[Finding]:
    fleets = scenario.fleets
    if of.whom is Whom.FLEET and of.name not in fleets:
        words = [*fleets, "all", "coordinator", *(f"driver {job}" for job in scenario.jobs)]
        yield Finding(here, f"there is no fleet '{of.name}'", known(of.name, words))
        return
    if of.whom is Whom.LABEL:
        values = {value for name in fleets for has in _labels(scenario, name) for value in has.get(of.name, ())}
        values |= set(fleets) if of.name == "fleet" else set(scenario.data) if of.name == "data" else set()
        if of.value not in values:
            options = [f"{of.name}={value}" for value in sorted(values)]
            fix = (
                known(f"{of.name}={of.value}", options)
                if options
                else f"give a fleet labels: {{{of.name}: {of.value}}}"
            )
            yield Finding(here, f"no device has {of.name}={of.value}", fix)
            return
    meant = sum(meant_fleets(scenario, of).values())
    if of.count is not None and of.count > meant:
        yield Finding(here, f"'{of}' asks for more than there are: {meant}", f"write at most {meant}")
    elif of.size(meant) == 0:
        yield Finding(here, f"'{of}' selects none of {meant} devices", "select more")


def meant_fleets(scenario: "Scenario", of: Selector) -> dict[str, int]:
    """How many devices of which fleets a selector means, before it takes a part of them."""
    counts = {name: _meant(scenario, name, of) for name in scenario.fleets}
    return {name: count for name, count in counts.items() if count}


def _meant(scenario: "Scenario", fleet: str, of: Selector) -> int:
    match of.whom:
        case Whom.ALL:
            all_or_none = True
        case Whom.FLEET:
            all_or_none = of.name == fleet
        case Whom.LABEL if of.name == "fleet":
            all_or_none = of.value == fleet
        case Whom.LABEL if of.name == "data":
            all_or_none = of.value in scenario.data
        case Whom.LABEL:
            return sum(of.value in has.get(of.name, ()) for has in _labels(scenario, fleet))
        case Whom.COORDINATOR | Whom.BROKER | Whom.DRIVER:
            all_or_none = False
        case _:
            assert_never(of.whom)
    return scenario.fleets[fleet].count if all_or_none else 0


def _labels(scenario: "Scenario", name: str) -> Sequence[Mapping[str, Collection[str]]]:
    """What each device of a fleet reports beyond what every device does; empty for a file that cannot be used."""
    fleet = scenario.fleets[name]
    if fleet.devices in (None, PHONES):
        return [fleet.labels] * fleet.count
    spec = next(each for each in scenario.fleet_specs() if each.name == name)
    try:
        return [{**has.labels, **fleet.labels} for has in capabilities_of(spec, scenario.seed)]
    except UsageError:  # told where the file is named
        return []


PROFILE = "link"
KEYS = (PROFILE, *LINK_FIELDS)
MOST_LOSS = Fraction(99, 100)


def as_link_change(value: Mapping[str, object], info: ValidationInfo) -> LinkChange:
    """What stands in the entry itself goes before what the profile gives."""
    own = {key: value[key] for key in LINK_FIELDS if key in value}
    stated = {**(_of_profile(value[PROFILE], info) if PROFILE in value else {}), **own}
    if not stated:
        raise wrong("limit does not say the new limits", "add e.g. link: 3g, or up: 500 kbit/s")
    read: dict[str, Any] = {}
    for key, written in stated.items():
        try:
            read[key] = _value(key, written, info)
        except ValueError as error:
            context = getattr(error, "context", None) or {}
            raise wrong(f"{key}: {context.get('message', error)}", context.get("fix", "")) from None
    return LinkChange(**read)


def _of_profile(stated: object, info: ValidationInfo) -> dict[str, object]:
    folder: Path = (info.context or {}).get("folder", Path())
    reference = as_profile(stated, info)
    try:
        profile = load_profile(reference, folder=folder)
    except UsageError as error:
        raise wrong(f"{PROFILE}: {error.message}", error.fix) from None
    if other := [key for key in profile.values if key not in LINK_FIELDS]:
        message = f"{PROFILE}: {reference} is a device and not a link: it gives {other[0]}"
        raise wrong(message, "`venn profile list` shows links")
    return {key: value.value for key, value in profile.values.items()}


def _value(key: str, written: object, info: ValidationInfo) -> float | Fraction:
    if key in ("up", "down"):
        return as_rate(written, info)
    if key == "loss":
        return as_fraction(written, Fraction(0), MOST_LOSS, open_below=False)
    return as_duration(written, info, positive=False)
