"""Problems that the shape of single keys does not show: in fleets, their limits, a population, and ``churn``."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from coordinator.engine.requirements import Requirement, comparisons, names_devices
from device_agent.spec import read_trace
from job_driver.settings import PATIENCE_S
from testbed.scenario.backends import OF_A_TASK
from testbed.scenario.errors import Finding, KeyPath, found_in, known, no_file
from testbed.scenario.model import Fleet, Scenario
from testbed.scenario.population import Population
from testbed.scenario.readers import GENERATED, MOST_SIMULATED, PHONES
from testbed.scenario.requirements import labels_of, meant_fleets, requirement_of, stated_requirements
from testbed.world.capabilities import REPORTED
from testbed.world.fleets import capabilities_of, device_name
from testbed.world.limits import LINK
from testbed.world.timeline import Entry, LinkChange, Verb
from venn.wire.errors import UsageError
from venn.wire.notation import Empirical, format_duration
from venn.wire.requirements import PROGRAMS, Rate, Selector, Whom
from venn.wire.text import did_you_mean

OURS = frozenset({"fleet", "data", "package", "id"})  # labels that are set for every device
HERE: KeyPath = ("population",)
# What only generated sessions have.
_LENGTHS = ("session", "gap", "swing", "peak")


def check_devices(scenario: Scenario) -> Iterator[Finding]:
    """Every problem of the devices, and of what is done to them."""
    for name, fleet in scenario.fleets.items():
        yield from _fleet(scenario, name, fleet)
    yield from _limits(scenario)
    yield from _timeline(scenario)
    if scenario.population is not None:
        yield from _population(scenario, scenario.population)


def _fleet(scenario: Scenario, name: str, fleet: Fleet) -> Iterator[Finding]:
    here: KeyPath = ("fleets", name)
    if fleet.session is not None and fleet.gap is None:
        yield Finding((*here, "gap"), "is missing, and session needs it", "add e.g. gap: exp(4s)")
    if fleet.session is None:
        for key in ("gap",) if fleet.trace is not None else ("gap", "crash"):
            if getattr(fleet, key):
                yield Finding((*here, key), "has no effect without session", "add e.g. session: exp(8s)")
    yield from _file_of_devices(scenario, name, fleet)
    if fleet.trace is not None:
        if fleet.session is not None:
            yield Finding((*here, "trace"), "says when devices are there, as session does", "remove one of them")
        yield from _trace(name, fleet)
    if fleet.processes > fleet.count:
        message = f"{fleet.processes} processes cannot host {fleet.count} devices"
        yield Finding((*here, "processes"), message, f"have at most {fleet.count}, one for each device")
    elif (each := scenario.backend_spec.each_device) and fleet.processes != fleet.count:
        message = f"{fleet.processes} processes for {fleet.count} devices, and each device is a {each}"
        yield Finding((*here, "processes"), message, "remove it")
    for label in OURS & fleet.labels.keys():
        yield Finding((*here, "labels", label), f"{label} is set for every device already", "take another name")
    for key in ("session", "gap"):
        if scenario.time_scale != 1 and isinstance(getattr(fleet, key), Empirical):
            yield Finding((*here, key), "a column of a file cannot be scaled", "remove time_scale")


def _file_of_devices(scenario: Scenario, name: str, fleet: Fleet) -> Iterator[Finding]:
    here: KeyPath = ("fleets", name, "devices")
    if fleet.devices is None:
        return
    if fleet.profile is not None:
        yield Finding(here, "says what each device is, as profile does", "keep one; link: NAME gives a link alone")
    if fleet.devices != PHONES and not Path(fleet.devices).is_file():
        yield no_file(here, fleet.devices)
        return
    spec = next(each for each in scenario.fleet_specs() if each.name == name)
    try:
        capabilities_of(spec, scenario.seed)
    except UsageError as error:
        yield found_in(here, error)


def _trace(name: str, fleet: Fleet) -> Iterator[Finding]:
    assert fleet.trace is not None
    try:
        spans = read_trace(fleet.trace)
    except UsageError as error:
        yield found_in(("fleets", name, "trace"), error)
        return
    devices = [device_name(name, index, fleet.count) for index in range(fleet.count)]
    missing = [device for device in devices if device not in spans]
    if missing:
        told = f"{fleet.trace} has no device {missing[0]}" + (f", and {len(missing) - 1} more" if missing[1:] else "")
        yield Finding(("fleets", name, "trace"), told, "give each a row there")


def _limits(scenario: Scenario) -> Iterator[Finding]:
    for name, fleet in scenario.fleets.items():
        for key in (*OF_A_TASK, *LINK):
            if getattr(fleet, key):
                yield from _limit(scenario, name, fleet, key)
        if fleet.jitter > fleet.delay:
            fix = f"make delay at least {format_duration(fleet.jitter)}"
            yield Finding(("fleets", name, "jitter"), "is more than delay, which cannot go below 0", fix)
    for number, entry in enumerate(scenario.churn):
        if entry.change is not None and isinstance(entry.of, Selector):
            yield from _change(scenario, number, entry.of, entry.change)


def _change(scenario: Scenario, number: int, of: Selector, change: LinkChange) -> Iterator[Finding]:
    """Findings about an entry of ``churn`` that changes links."""
    here, backend = ("churn", number), scenario.backend_spec
    if beyond := [key for key in LINK if getattr(change, key) is not None and key not in backend.limits]:
        can = ", ".join(key for key in LINK if key in backend.limits)
        fix = f"it can limit {can}" if can else "remove it"
        yield Finding(here, f"limit: backend {backend.name} cannot limit {', '.join(beyond)}", fix)
    if scenario.time_scale != 1:
        yield Finding(here, "limit is not scaled, and time_scale is not 1", "remove time_scale, or the entry")
    for name in meant_fleets(scenario, of):
        fleet = scenario.fleets[name]
        delay = fleet.delay if change.delay is None else change.delay
        if (fleet.jitter if change.jitter is None else change.jitter) > delay:
            message = f"the jitter of {name} is more than its delay, which cannot go below 0"
            yield Finding(here, message, "add a delay, or a smaller jitter")
        if change.loss and not backend.simulated and fleet.processes != fleet.count:
            message = f"loss needs a process for each device of {name}: a relay loses nothing"
            yield Finding(here, message, f"add processes: {fleet.count} there")


def _limit(scenario: Scenario, name: str, fleet: Fleet, key: str) -> Iterator[Finding]:
    here = ("fleets", name, key)
    backend = scenario.backend_spec
    shared = not backend.simulated and fleet.processes != fleet.count
    if key not in backend.limits:
        fix = "remove it, or give profile: NAME, whose limits are left out here"
        yield Finding(here, f"has no effect with backend: {scenario.backend}", fix)
    elif key in OF_A_TASK and shared:
        message = "needs a process for each device"
        yield Finding(here, message, f"add processes: {fleet.count}, or remove it and let task time be modelled")
    elif key == "loss" and shared:
        yield Finding(here, "needs a process for each device: a relay loses nothing", f"add processes: {fleet.count}")
    elif scenario.time_scale != 1:
        yield Finding(here, "is not scaled, and time_scale is not 1", "remove time_scale, or the limit")


def _population(scenario: Scenario, population: Population) -> Iterator[Finding]:
    if not scenario.backend_spec.simulated:
        yield Finding(HERE, "works in the simulator only", "write backend: sim, or describe fleets")
    if scenario.fleets:
        yield Finding(HERE, "conflicts with fleets", "keep one of the two")
    if scenario.time_scale != 1:
        yield Finding(("time_scale",), "conflicts with population", "remove it: virtual time needs no waiting")
    yield from _files(population)
    yield from _how_many(population)
    if scenario.scale != 1 and population.count is None and population.check_ins_per_day is None:
        fix = "give population count or check_ins_per_day" if population.sessions == GENERATED else "remove it"
        yield Finding(("scale",), "cannot multiply the devices of a file", fix)
    asked = _asked(scenario)
    if population.devices == PHONES:
        yield from _reported(population, asked)
    for path, requirement in asked.items():
        if names_devices(requirement):
            yield Finding(path, "names devices, and those of a population have no names", "compare capabilities")


def _files(population: Population) -> Iterator[Finding]:
    for key, word in (("devices", PHONES), ("sessions", GENERATED)):
        text: str = getattr(population, key)
        if text != word and not Path(text).is_file():
            yield no_file((*HERE, key), text)


def _how_many(population: Population) -> Iterator[Finding]:
    stated = [key for key in ("count", "check_ins_per_day") if getattr(population, key) is not None]
    if population.sessions != GENERATED:
        default = Population()
        for key in (*stated, *(key for key in _LENGTHS if getattr(population, key) != getattr(default, key))):
            yield Finding((*HERE, key), "has no effect: the file says when devices are there", "remove it")
        return
    if len(stated) == 2:
        yield Finding((*HERE, "check_ins_per_day"), "conflicts with count", "keep one of the two")
    if not stated and population.devices == PHONES:
        yield Finding((*HERE, "count"), "is missing", "add e.g. count: 20000, or check_ins_per_day: 1400000")
    if population.spec().count > MOST_SIMULATED:
        message = f"takes {population.spec().count} devices"
        yield Finding((*HERE, "check_ins_per_day"), message, f"at most {MOST_SIMULATED} are simulated")


def _reported(population: Population, asked: Mapping[KeyPath, Requirement]) -> Iterator[Finding]:
    """Capabilities that are asked for, and that phones do not report."""
    if population.slow is not None and population.slow not in REPORTED:
        yield Finding((*HERE, "slow"), f"no phone reports {population.slow}", known(population.slow, REPORTED))
    for path, requirement in asked.items():
        for each in comparisons(requirement):
            if each.name not in REPORTED:
                yield Finding(path, f"no phone reports {each.name}", known(each.name, REPORTED))


def _asked(scenario: Scenario) -> dict[KeyPath, Requirement]:
    """The requirements of all jobs, each where it stands; a name of one that is not there is told elsewhere."""
    stated = stated_requirements(scenario)
    named = {("requirements", name): text for name, text in scenario.requirements.items() if name in stated.values()}
    here = {path: text for path, text in stated.items() if text not in scenario.requirements}
    return {path: requirement_of(text) for path, text in (named | here).items() if text == "all" or " " in text}


def _timeline(scenario: Scenario) -> Iterator[Finding]:
    for number, entry in enumerate(scenario.churn):
        here: KeyPath = ("churn", number)
        of = entry.of.of if isinstance(entry.of, Rate) else entry.of
        if of.whom in PROGRAMS:
            yield from _program(scenario, here, entry, of)
        elif scenario.population is not None:
            yield from _of_population(scenario.population, here, entry, of)
        else:
            yield from _selected(scenario, here, entry.verb, of)
        ends = entry.end_s * scenario.time_scale
        if ends > scenario.duration:
            message = (
                f"ends at {format_duration(ends)}, after the end of the run ({format_duration(scenario.duration)})"
            )
            yield Finding(here, message, "raise duration, or make it end earlier")


def _program(scenario: Scenario, here: KeyPath, entry: Entry, of: Selector) -> Iterator[Finding]:
    if of.whom is Whom.DRIVER and of.name not in scenario.jobs:
        yield Finding(here, f"there is no job '{of.name}'", known(of.name, scenario.jobs))
    if of.whom is Whom.COORDINATOR and (entry.for_s or 0.0) * scenario.time_scale > PATIENCE_S:
        most = format_duration(PATIENCE_S)
        yield Finding(here, f"for: drivers give up on a coordinator that is away for {most}", "make it shorter")
    if entry.to_s is not None:
        yield Finding(
            here, f"{of} is a single program, and from and to are for many devices", "write at in place of from and to"
        )


def _of_population(population: Population, here: KeyPath, entry: Entry, of: Selector) -> Iterator[Finding]:
    """How many devices it means is known when they are made, and told then."""
    if entry.verb is Verb.LIMIT:
        yield Finding(here, "limit: the links of a population do not change", "remove it, or describe fleets")
    if of.whom is Whom.FLEET:
        yield Finding(here, f"there is no fleet '{of.name}': a population has none", "write all, or label=value")
    elif of.whom is Whom.LABEL and population.devices == PHONES:
        yield Finding(here, f"no phone has {of.name}={of.value}: phones have no labels", "write all")


def _selected(scenario: Scenario, here: KeyPath, verb: Verb, of: Selector) -> Iterator[Finding]:
    fleets, backend = scenario.fleets, scenario.backend_spec
    if verb not in backend.verbs:
        can = f"it can {', '.join(sorted(backend.verbs))}" if backend.verbs else "remove it"
        yield Finding(here, f"{verb}: backend {backend.name} cannot do this to a device", can)
    if of.whom is Whom.FLEET and of.name not in fleets:
        likely = did_you_mean(of.name, [*fleets, "all", "coordinator", *(f"driver {job}" for job in scenario.jobs)])
        fix = likely or f"the fleets are {', '.join(fleets)}; or write all, or label=value"
        yield Finding(here, f"there is no fleet '{of.name}'", fix)
        return
    if of.whom is Whom.LABEL:
        values = {value for name in fleets for has in labels_of(scenario, name) for value in has.get(of.name, ())}
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
