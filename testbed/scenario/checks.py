"""Problems that the shape of single keys does not show: in the top of a scenario, its requirements, data and jobs.

Names that exist, files that are there, keys that go together, and for every job at least one device that can serve it.
"""

import ast
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from coordinator.engine.requirements import comparisons
from coordinator.policies.registry import PolicyError, in_file, load_policy, policy_names, split
from device_agent.spec import DeviceSpec
from testbed.scenario.checks_of_devices import check_devices
from testbed.scenario.errors import FROM_FOLDER, MOST_FINDINGS, Finding, KeyPath, known, no_file
from testbed.scenario.expect import unknown_step
from testbed.scenario.model import Fleet, Job, Scenario
from testbed.scenario.population import DrawnJobs
from testbed.scenario.readers import LONGEST
from testbed.scenario.requirements import requirement_of, served_by, stated_requirements, unfillable
from testbed.scenario.unfold import unfolded
from testbed.world.arrays import Matching
from testbed.world.jobs import Which, draw_jobs, job_names, read_table, subset
from venn.wire.errors import UsageError
from venn.wire.notation import format_bytes, format_duration, format_number

MOST_DEVICES = 10_000  # that one machine can hold connections of
SHOWN = {"memory": format_bytes}  # capabilities that are no plain numbers
MOST_SOURCE = 1_000_000  # bytes of a job file
SMALLEST_MEMORY = 1_000_000  # bytes; less in a requirement is a forgotten unit


def check(scenario: Scenario) -> list[Finding]:
    """The first problems that the shape of single keys does not show, at most MOST_FINDINGS."""
    findings = list(islice(_each(scenario), MOST_FINDINGS))
    if scenario.population is None and not findings:
        findings += _served(scenario)
        findings += [] if findings else _filled(unfolded(scenario))
    return findings


def _each(scenario: Scenario) -> Iterator[Finding]:
    yield from _top(scenario)
    yield from _requirements(scenario)
    yield from _data(scenario)
    for name, job in scenario.jobs.items():
        yield from _job(scenario, name, job)
    yield from _drawn_jobs(scenario)
    yield from _confine(scenario)
    yield from check_devices(scenario)


def _top(scenario: Scenario) -> Iterator[Finding]:
    if not scenario.jobs and scenario.drawn_jobs is None:
        yield Finding(("jobs",), "there is no job", "add one")
    if not scenario.fleets and scenario.population is None:
        fix = "add a fleet or a population" if scenario.backend_spec.simulated else "add a fleet"
        yield Finding(("fleets",), "there is no device", fix)
    if scenario.devices > MOST_DEVICES:
        yield Finding(("fleets",), f"{scenario.devices} devices are too many", f"have at most {MOST_DEVICES}")
    yield from _policy(scenario.policy)
    yield from _expect(scenario)


def _expect(scenario: Scenario) -> Iterator[Finding]:
    if not scenario.expect:
        return
    from testbed.runfolder.summary import Summary  # on demand: few scenarios expect anything

    jobs = [*scenario.jobs, *(job_names(scenario.drawn_jobs.count) if scenario.drawn_jobs else ())]
    for index, each in enumerate(scenario.expect):
        if each.path[0] == "jobs" and (len(each.path) < 3 or each.path[1] not in jobs):
            step = each.path[1] if len(each.path) > 1 else ""
            message = f"'{each}' names no job" if step not in jobs else f"'{each}' names no figure of a job"
            fix = known(step, jobs) if step not in jobs else f"write e.g. jobs.{step}.jct_s < 60"
            yield Finding(("expect", index), message, fix)
        elif (unknown := unknown_step(each.path, Summary)) is not None:
            step, steps = unknown
            message = f"'{each}' names no figure of summary.json" + (f": there is no {step}" if step else "")
            yield Finding(("expect", index), message, known(step, steps) if steps else "see docs/run-folder.md")


def _policy(name: str) -> Iterator[Finding]:
    base, parameters = split(name)
    file, attribute = in_file(base)
    if file is not None and not file.is_file():
        yield no_file(("policy",), file)
    elif file is not None and not attribute:
        yield Finding(("policy",), f"'{base}' names no policy of the file", f"write {base}NAME")
    elif file is None and "(" in base:
        yield Finding(("policy",), f"'{base}' has no )", "write e.g. venn(tiers=4)")
    elif file is None and base not in policy_names():
        yield Finding(("policy",), f"there is no policy '{base}'", known(base, policy_names()))
    elif parameters:
        try:
            load_policy(name)
        except PolicyError as error:
            yield Finding(("policy",), str(error), "see docs/policies.md, or leave it out")


def _requirements(scenario: Scenario) -> Iterator[Finding]:
    for name, text in scenario.requirements.items():
        here: KeyPath = ("requirements", name)
        if name == "all":
            yield Finding(here, "all is every device already", "take another name")
        if text != "all" and " " not in text:
            yield Finding(here, f"'{text}' is not a requirement", "write e.g. all, or memory >= 4 GB and cpu >= 7")
            continue
        yield from _sizes(here, text)
    for path, stated in stated_requirements(scenario).items():
        if stated in scenario.requirements or stated == "all":
            continue
        if " " in stated:
            yield from _sizes(path, stated)
        else:
            message = f"there is no requirement '{stated}' in requirements"
            yield Finding(path, message, known(stated, [*scenario.requirements, "all"]))


def _sizes(path: KeyPath, text: str) -> Iterator[Finding]:
    for each in comparisons(requirement_of(text)):
        if each.name == "memory" and isinstance(each.value, float) and abs(each.value) < SMALLEST_MEMORY:
            yield Finding(path, f"compares memory with {each.value:g} bytes", "give the unit, e.g. memory >= 4 GB")


def _data(scenario: Scenario) -> Iterator[Finding]:
    for name, data in scenario.data.items():
        if data.source.endswith(".npz") and not Path(data.source).is_file():
            yield no_file(("data", name, "source"), data.source)


def _job(scenario: Scenario, name: str, job: Job) -> Iterator[Finding]:
    here: KeyPath = ("jobs", name)
    if job.file is None:
        if not scenario.backend_spec.simulated:
            yield Finding((*here, "file"), "is missing", "add e.g. file: job.py")
    elif problem := problem_of_job_file(job.file, runs_here=scenario.backend_spec.code_here):
        yield Finding((*here, "file"), *problem)
    if job.rounds is None and job.max_rounds is None:
        yield Finding(
            (*here, "rounds"), "is missing", "add e.g. rounds: 10, or max_rounds: 10 if the job may stop earlier"
        )
    if job.rounds is not None and job.max_rounds is not None:
        yield Finding((*here, "max_rounds"), "conflicts with rounds", "keep one: rounds is exact, max_rounds a limit")
    yield from _asynchronous(here, job)
    if job.arrives * scenario.time_scale >= scenario.duration:
        yield Finding(
            (*here, "arrives"), "is after the end of the run", "raise duration, or have the job arrive earlier"
        )
    if job.data is not None and job.data not in scenario.data:
        yield Finding((*here, "data"), f"there is no data set '{job.data}' in data", known(job.data, scenario.data))


def problem_of_job_file(path: Path, *, runs_here: bool = False) -> tuple[str, str] | None:
    """What is wrong with a job file, and what to do; None: nothing that can be seen without running it.

    The driver imports it, which is the real test. This one comes before anything is started. ``runs_here``: what it
    imports must be installed on this machine.
    """
    try:
        if path.is_dir():
            return f"{path} is a folder", "name the Python file in it"
        with path.open("rb") as file:
            source = file.read(MOST_SOURCE + 1)
    except FileNotFoundError:
        return f"there is no file {path}", FROM_FOLDER
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}", "give read permission"
    if len(source) > MOST_SOURCE:
        return f"{path} is larger than {format_bytes(MOST_SOURCE)}", "a job file holds code; keep data elsewhere"
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source, filename=str(path))
    except SyntaxError as error:
        return f"{path}:{error.lineno or 1}: is not Python: {error.msg}", "`venn job check` shows more"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{path} is not Python: {error}", "is it the right file?"
    if not any(_defines_job(node) for node in ast.walk(tree)):
        return f"{path} defines no job", "end it with job = Job(...)"
    for line, package in _imported(tree) if runs_here else ():
        if not _installed(package):
            return (
                f"{path}:{line}: needs the Python package {package}, which is not installed",
                f"pip install {package}",
            )
    return None


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and package of what it imports in any case; an import below ``try`` or ``if`` may be missing."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, each.name.partition(".")[0]) for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.partition(".")[0]
            case _:
                pass  # no import


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is imported, and does not say where from
        return True


def _defines_job(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="job", ctx=ast.Store()):
            return True
        case ast.alias(name=name, asname=asname):
            return (asname or name) == "job"
        case _:
            return False


def _asynchronous(here: KeyPath, job: Job) -> Iterator[Finding]:
    if job.buffer is None:
        if job.max_staleness is not None:
            yield Finding((*here, "max_staleness"), "has no effect without buffer", "add e.g. buffer: 8")
        return
    if job.buffer > job.demand:
        message = f"a buffer of {job.buffer} is more than the {job.demand} devices at work"
        yield Finding((*here, "buffer"), message, f"have at most {job.demand}, the demand")
    if job.over_commit > 0:
        yield Finding(
            (*here, "over_commit"), "conflicts with buffer", "remove it, and raise demand: all devices at work count"
        )


def _served(scenario: Scenario) -> Iterator[Finding]:
    """Jobs that no device can serve."""
    devices = scenario.drawn_devices()
    for path, stated in stated_requirements(scenario).items():
        text = scenario.requirements.get(stated, stated)
        if served_by(text, devices) == 0:
            told = text if stated == text else f"{stated}, which is {text}"
            message = f"none of the {len(devices)} devices meets {told}"
            yield Finding(path, message, _instead(scenario, devices, text))


def _filled(whole: Scenario) -> Iterator[Finding]:
    """Jobs that ask for more devices than there are for them."""
    devices = whole.drawn_devices()
    eligible: dict[str, int | None] = {}
    for name, job in whole.jobs.items():
        _, text = whole.requirement_of(name)
        if text not in eligible:
            eligible[text] = served_by(text, devices)
        count = eligible[text]
        if count is not None and (problem := unfillable(job, count)):
            yield Finding(("jobs", name, "demand"), *problem)


def _instead(scenario: Scenario, devices: Sequence[DeviceSpec], text: str) -> str:
    """What the fleets have of the capabilities that a requirement asks for."""
    asked = dict.fromkeys(each.name for each in comparisons(requirement_of(text)))
    have = dict.fromkeys(["cpu", "memory", "os", "fleet", "data"])
    for device in devices:
        have |= dict.fromkeys([*device.numbers, *device.labels])
    for name in asked:
        if name not in have:
            return f"no device reports {name}; {known(name, have)}"
    told = []
    for name, fleet in scenario.fleets.items():
        mine = [device for device in devices if device.fleet == name]
        told.append(f"{name} has " + " and ".join(f"{key} {_reported(fleet, mine, key)}" for key in asked))
    return ", ".join(told) if asked else f"devices are called {devices[0].device} and so on"


def _reported(fleet: Fleet, devices: Sequence[DeviceSpec], key: str) -> str:
    """What the devices of a fleet report under a name: as the fleet says it, or from what to what."""
    stated = getattr(fleet, key) if key in ("cpu", "memory", "os") else None
    if stated is not None:
        return str(stated)
    numbers = [device.numbers[key] for device in devices if key in device.numbers]
    if numbers:
        least, most = (SHOWN.get(key, format_number)(value) for value in (min(numbers), max(numbers)))
        return least if least == most else f"{least}..{most}"
    labels = sorted({value for device in devices for value in device.labels.get(key, ())})
    return " ".join(labels) or "not stated"


_DRAWN = "drawn_jobs"


def _drawn_jobs(scenario: Scenario) -> Iterator[Finding]:
    if scenario.drawn_jobs is not None:
        yield from _names(scenario, scenario.drawn_jobs)
        yield from _table(scenario, scenario.drawn_jobs)
    if not scenario.backend_spec.simulated:
        asked = {_DRAWN: scenario.drawn_jobs is not None, "scale": scenario.scale != 1}
        asked |= {"rounds_scale": scenario.rounds_scale != 1, "noise": scenario.noise != 0}
        asked["match"] = scenario.match is not Matching.WHILE_PRESENT
        for key in (key for key, there in asked.items() if there):
            yield Finding((key,), "has no effect on real devices", "add backend: sim")


def _confine(scenario: Scenario) -> Iterator[Finding]:
    if scenario.confine is not None and scenario.backend_spec.simulated:
        yield Finding(("confine",), "has no effect in a simulation, which runs no job code", "remove it")


def _names(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    for name in job_names(asked.count):
        if name in scenario.jobs:
            yield Finding(("jobs", name), "is the name of a drawn job", "take another name")


def _table(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    here: KeyPath = (_DRAWN, "table")
    try:
        rows = subset(read_table(asked.table), asked.which)
    except UsageError as error:
        yield Finding(here, f"{error.where} {error.message}", error.fix)
        return
    if not rows:
        yield Finding(
            (_DRAWN, "which"),
            f"no job of the table is {asked.which}: all are alike",
            f"write {Which.ALL}",
        )
        return
    jobs = draw_jobs(asked.count, rows, asked.requirement, asked.arrives, seed=scenario.seed)
    last = jobs[-1].arrives_s * scenario.rounds_scale
    if last > LONGEST:
        message = f"the last job comes after {last / 86_400:.0f} days"
        yield Finding((_DRAWN, "arrives"), message, f"make all arrive within {format_duration(LONGEST)}")
