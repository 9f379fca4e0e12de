"""Simulations made of scenarios: the jobs, the devices and the engine's settings in virtual time.

The devices are a population, or those of fleets as the live testbed has them, at the same times. Nobody is slow to
answer, nobody is too many, and no heartbeats are counted: who is silent is known beforehand, so the simulation says it
where a live engine would notice (``silent_at``). A scenario's ``time_scale`` is applied here and where its devices are
made, and nowhere else.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from coordinator.engine.ids import DeviceId, JobId
from coordinator.engine.model import Asynchronous, EngineSettings, JobSpec, Repeat, StragglerRule, Workload
from coordinator.engine.requirements import AllDevices, Comparison, Every, Ids, Requirement, leaves
from coordinator.policies.registry import tiers_of
from device_agent.spec import DeviceSpec
from testbed.scenario.model import Job, Scenario
from testbed.scenario.population import Population
from testbed.scenario.requirements import capabilities, requirement_of, unfillable
from testbed.scenario.unfold import unfolded
from testbed.simulate.model import Break, Cut, SimulatedJob, Simulation
from testbed.world.absences import on_population, on_programs, with_absences
from testbed.world.fleets import check_ins_of
from testbed.world.limits import Limits, changed
from testbed.world.links import LinkSchedule, link_schedule
from testbed.world.population import Population as MadePopulation
from testbed.world.population import check_ins
from testbed.world.timeline import Action, Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import Whom

Made = Callable[..., Simulation]  # takes the fields of a simulation that are about devices, and the settings


def _of_population(made: Made, scenario: Scenario, population: Population, asked: Sequence[Requirement]) -> Simulation:
    """A simulation on devices of a ``population``; ``asked`` are the requirements of all jobs. Raises UsageError."""
    found = check_ins(population.spec(), seed=scenario.seed, requirements=asked)
    found, actions = on_population(scenario.churn, found, seed=scenario.seed, until_s=scenario.duration)
    _check_filled(scenario, found)
    return made(
        settings=simulated_settings(scenario.seed, scenario.policy),
        devices=found.devices,
        kinds=found.kinds,
        trace=found.trace,
        tasks_per_session=population.tasks_per_session,
        tasks_per_day=population.tasks_per_day,
        actions=actions,
    )


def device_specs(scenario: Scenario) -> list[DeviceSpec]:
    """All devices, with data that nobody reads. Raises UsageError for fleets that no devices can be made of."""
    devices = scenario.drawn_devices()
    return with_absences(devices, scenario.timeline(devices))


def _of_fleets(made: Made, scenario: Scenario, asked: Sequence[Requirement]) -> Simulation:
    """A simulation on the devices of ``scenario.fleets``; ``asked`` are the requirements of all jobs.

    Raises UsageError for fleets that no devices can be made of.
    """
    undisturbed = scenario.drawn_devices()
    timeline = scenario.timeline(undisturbed)
    devices = with_absences(undisturbed, timeline)
    named = [each for one in asked for each in leaves(one) if isinstance(each, Ids)]
    of = [_kind(device, named) for device in devices]
    number = {kind: index for index, kind in enumerate(dict.fromkeys(of))}
    kind = [number[each] for each in of]
    first = [devices[kind.index(each)] for each in range(len(number))]  # one of each kind
    limits = tuple((device.tasks_per_session, device.tasks_per_day) for device in first)
    alike = len(set(limits)) == 1
    cuts = _cuts(devices)
    return made(
        settings=simulated_settings(scenario.seed, scenario.policy, silent=bool(cuts)),
        devices=len(devices),
        kinds=tuple(capabilities(device) for device in first),
        trace=partial(check_ins_of, devices, kind),
        samples=tuple(DeviceId(device.device) for device in first) if named else (),
        names=tuple(DeviceId(device.device) for device in devices),
        tasks_per_session=limits[0][0] if alike else 0,
        tasks_per_day=limits[0][1] if alike else 0,
        limits=() if alike else limits,
        links=_links(scenario, devices, timeline.actions),
        actions=timeline.actions,
        cuts=cuts,
    )


def _cuts(devices: Sequence[DeviceSpec]) -> dict[tuple[int, float], Cut]:
    """When each gets out of reach, and how."""
    return {
        (number, absence.from_s): Cut(absence.how.value)
        for number, device in enumerate(devices)
        for absence in device.absences
        if absence.how.value in set(Cut)
    }


def _links(
    scenario: Scenario, devices: Sequence[DeviceSpec], actions: Sequence[Action]
) -> tuple[LinkSchedule | None, ...]:
    """The link of each device; empty: none is limited at any time."""
    own = {name: fleet.limits for name, fleet in scenario.fleets.items()}
    changes: dict[str, list[tuple[float, float, Limits]]] = {}
    fleet = {device.device: device.fleet for device in devices}
    for each in actions:
        if each.change is not None:
            until = math.inf if each.until_s is None else each.until_s
            change = (each.at_s, until, changed(own[fleet[each.target]], each.change))
            changes.setdefault(each.target, []).append(change)
    links = tuple(
        link_schedule(own[device.fleet], changes.get(device.device, ()))
        if own[device.fleet].link or device.device in changes
        else None
        for device in devices
    )
    return links if any(links) else ()


def _kind(device: DeviceSpec, named: Sequence[Ids]) -> tuple[object, ...]:
    """What devices of one kind have in common; ``named``: the requirements that name devices."""
    has = tuple(sorted(device.numbers.items())), tuple(sorted(device.labels.items()))
    limits = device.tasks_per_session, device.tasks_per_day
    return has, limits, tuple(DeviceId(device.device) in each.ids for each in named)


LIVE = EngineSettings(seed=0, policy="")  # those of a live coordinator, unless it is told others
_NO_BOUND = 2**62


def silent_at(since_s: float, began_s: float) -> float:
    """When a coordinator that was started at ``began_s`` ends the session of a device that says nothing any more."""
    return max(since_s + LIVE.liveness_s, began_s + LIVE.recovery_grace_s)


def simulated_settings(seed: int, policy: str, *, silent: bool = False) -> EngineSettings:
    """Settings for devices that answer at once and say when they leave, so that no time of the protocol ever runs out.

    ``silent``: devices can be out of reach, and take no offer then.
    """
    return EngineSettings(
        seed=seed,
        policy=policy,
        tiers=tiers_of(policy),
        liveness_s=math.inf,
        accept_timeout_s=LIVE.accept_timeout_s if silent else math.inf,
        no_work_patience_s=math.inf,
        most_sessions=_NO_BOUND,
        most_devices=_NO_BOUND,
        most_jobs=_NO_BOUND,
    )


OWNER, RUN = "testbed", "sim"  # of the jobs: OWNER/NAME/RUN


def build(scenario: Scenario) -> Simulation:
    """The simulation that a scenario asks for. Raises UsageError where it asks for what cannot be made."""
    whole = unfolded(scenario)
    jobs = sorted((_job(whole, name, job) for name, job in whole.jobs.items()), key=_arrival)
    asked = [job.spec.requirement for job in jobs]
    made = partial(
        Simulation,
        jobs=tuple(jobs),
        matching=scenario.match,
        noise_sigma=scenario.noise,
        until_s=scenario.duration,
        breaks=tuple(_breaks(whole)),
    )
    if whole.population is not None:
        return _of_population(made, whole, whole.population, asked)
    return _of_fleets(made, whole, asked)


def _check_filled(whole: Scenario, population: MadePopulation) -> None:
    """Check that each job finds as many devices in a population as it asks for. Raises UsageError."""
    eligible: dict[str, int] = {}
    for name, job in whole.jobs.items():
        _, text = whole.requirement_of(name)
        if text not in eligible:
            met = (requirement_of(text).matches(DeviceId(""), kind) for kind in population.kinds)
            eligible[text] = sum(count for count, meets in zip(population.of_kind, met, strict=True) if meets)
        if problem := unfillable(job, eligible[text]):
            message, fix = problem
            raise UsageError("DEMAND", message, where=f"jobs.{name}.demand", fix=fix)


def _arrival(job: SimulatedJob) -> tuple[float, JobId]:
    return job.arrives_s, job.spec.job


def _job_id(name: str) -> JobId:
    return JobId(f"{OWNER}/{name}/{RUN}")


def _job(scenario: Scenario, name: str, asked: Job) -> SimulatedJob:
    scale = scenario.time_scale
    stated, text = scenario.requirement_of(name)
    lease = asked.deadline if asked.lease is None else asked.lease
    spec = JobSpec(
        job=_job_id(name),
        requirement=_with_data(requirement_of(text), asked.data),
        requirement_name=stated,
        rounds=asked.rounds,
        demand=asked.demand,
        min_response=asked.min_response,
        over_commit=asked.over_commit,
        deadline_s=asked.deadline * scale,
        lease_s=lease * scale,
        stragglers=StragglerRule(asked.stragglers),
        workload=Workload(asked.workload.compute * scale, asked.workload.download, asked.workload.upload),
        asynchronous=None if asked.buffer is None else Asynchronous(asked.buffer, asked.max_staleness),
        repeat=Repeat(asked.repeat),
    )
    return SimulatedJob(spec, asked.arrives * scale, asked.rounds or asked.max_rounds or 1)


def _breaks(scenario: Scenario) -> Iterator[Break]:
    """Nothing of the testbed waits for a broker: what is done to one changes nothing."""
    for action in on_programs(scenario.churn, scale=scenario.time_scale):
        whom, _, name = action.target.partition(" ")
        if whom != Whom.BROKER:
            job = _job_id(name) if whom == Whom.DRIVER else None
            until = action.at_s if action.until_s is None else action.until_s
            yield Break(action.at_s, until, job, stands_still=action.verb is Verb.SUSPEND)


def _with_data(requirement: Requirement, data: str | None) -> Requirement:
    """The requirement, narrowed to devices that have the job's data, as its driver tells the coordinator."""
    if data is None:
        return requirement
    has_data = Comparison("data", "=", data)
    return has_data if isinstance(requirement, AllDevices) else Every((requirement, has_data))
