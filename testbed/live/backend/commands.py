"""The command lines of a run's programs: the same flags that a user writes by hand (docs/by-hand.md).

A scenario's ``time_scale`` is applied here and in the population, and nowhere else.
"""

from collections.abc import Sequence
from pathlib import Path

from testbed.live.backend.prepare import DeviceHost
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from venn.wire.notation import format_bytes, format_fraction, format_number

OWNER = "testbed"


def coordinator(scenario: Scenario, folder: RunFolder, *, validate: bool, listen: str = "127.0.0.1:0") -> list[str]:
    flags = ["--listen", listen, "--policy", scenario.policy, "--seed", str(scenario.seed)]
    flags += ["--name", scenario.name, "--dir", str(folder.root), "--keys", str(folder.keys), "--json"]
    flags += ["--durability", "interval"]  # a run is not taken up again after a loss of power
    flags += ["--keep-journal", "all"]  # its report and its replay begin at the beginning
    return ["coordinator", *flags, *(["--validate"] if validate else [])]


def listening(arguments: Sequence[str], address: str) -> list[str]:
    """The command of a coordinator, with another address to listen at."""
    place = arguments.index("--listen") + 1
    return [*arguments[:place], address, *arguments[place + 1 :]]


def devices(
    host: DeviceHost,
    scenario: Scenario,
    folder: RunFolder,
    *,
    to: str,
    epoch: float,
    throttle: Sequence[str] = (),
    measured: bool = False,
) -> list[str]:
    """The command of the agent or the swarm that is ``host``.

    ``epoch`` is the Unix time at which the run's clock starts. ``measured``: its tasks take the time that they
    need, and not a modelled one.
    """
    flags = ["--coordinator", to, "--keys", str(folder.keys), "--dir", str(folder.device_host(host.name))]
    flags += ["--epoch", f"{epoch:.3f}", *throttle, *confinement(scenario), *allowed_code(scenario)]
    if host.single:
        modelled = [] if measured else ["--model-time"]
        return ["agent", *flags, "--from", f"{host.population}:{host.name}", *modelled, "--crash-kills"]
    return ["swarm", *flags, "--from", str(host.population)]


def confinement(scenario: Scenario) -> list[str]:
    """The flags that say how job code is confined on a device."""
    asked = scenario.confine
    if asked is None:
        return []
    flags = ["--confine", asked.level.value, "--task-disk", format_bytes(asked.disk)]
    flags += ["--task-files", str(asked.files), "--task-processes", str(asked.processes)]
    return flags if asked.memory is None else [*flags, "--task-memory", format_bytes(asked.memory)]


def allowed_code(scenario: Scenario) -> list[str]:
    """The flags by which a device may run the code of the scenario's jobs."""
    return [
        word for file in sorted({str(job.file) for job in scenario.jobs.values()}) for word in ("--allow-code", file)
    ]


def job(
    name: str, scenario: Scenario, folder: RunFolder, *, to: str, run: str, held_out: Path | None, epoch: float | None
) -> list[str]:
    """The command of the driver of one job. Without ``epoch`` a file tells it when the job arrives."""
    asked, scale = scenario.jobs[name], scenario.time_scale
    requirement_name, requirement = scenario.requirement_of(name)
    flags = ["--coordinator", to, "--keys", str(folder.keys), "--dir", str(folder.job(name))]
    flags += ["--name", name, "--owner", OWNER, "--run", run, "--seed", str(scenario.seed)]
    flags += ["--requirement", requirement, "--requirement-name", requirement_name]
    flags += ["--demand", str(asked.demand), "--over-commit", format_fraction(asked.over_commit)]
    flags += ["--min-response", format_fraction(asked.min_response), "--deadline", _seconds(asked.deadline * scale)]
    flags += ["--compute", _seconds(asked.workload.compute * scale), "--stragglers", asked.stragglers]
    flags += ["--repeat", asked.repeat]
    if epoch is not None:
        flags += ["--start-at", f"{start_at(name, scenario, epoch):.3f}"]
    if asked.lease is not None:
        flags += ["--lease", _seconds(asked.lease * scale)]
    if asked.buffer is not None:
        flags += ["--buffer", str(asked.buffer)]
    if asked.max_staleness is not None:
        flags += ["--max-staleness", str(asked.max_staleness)]
    flags += ["--rounds", str(asked.rounds)] if asked.rounds else ["--max-rounds", str(asked.max_rounds)]
    if asked.data is not None:
        flags += ["--data", asked.data]
    if held_out is not None:
        flags += ["--held-out", str(held_out)]
    for key, value in asked.params.items():
        flags += ["--param", f"{key}={_parameter(value)}"]
    return ["job", "run", str(asked.file), *flags, *(["--deterministic"] if asked.deterministic else []), "--json"]


def start_at(name: str, scenario: Scenario, epoch: float) -> float:
    """The Unix time at which the driver of a job submits it."""
    return epoch + scenario.jobs[name].arrives * scenario.time_scale


def resumed(arguments: Sequence[str]) -> list[str]:
    """The command of a driver, with ``--resume``: it continues its job."""
    return [*arguments, *([] if "--resume" in arguments else ["--resume"])]


def _seconds(value: float) -> str:
    return f"{format_number(value)}s"


def _parameter(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        return f'"{value}"'  # "007" and "true" stay text
    return str(value).lower() if isinstance(value, bool) else str(value)
