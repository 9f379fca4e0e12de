"""A simulation made from a scenario.

The engine's settings in virtual time: nobody is slow to answer, nobody is too many, and no heartbeats are counted.

Who is silent is known beforehand, so the simulation says it where a live engine would notice (``silent_at``).

From a scenario to what is simulated.

A scenario's ``time_scale`` is applied here and where its devices are made, and nowhere else.
"""

import math
from collections.abc import Iterator

from coordinator.engine.ids import DeviceId, JobId
from coordinator.engine.model import Asynchronous, EngineSettings, JobSpec, Repeat, StragglerRule, Workload
from coordinator.engine.requirements import AllDevices, Comparison, Every, Requirement
from coordinator.policies.registry import tiers_of
from testbed.scenario.model import Job, Scenario
from testbed.scenario.requirements import requirement_of, unfillable
from testbed.scenario.unfold import unfolded
from testbed.simulate.devices import Devices, fleet_devices, population_devices
from testbed.simulate.model import Break, SimulatedJob, Simulation
from testbed.world.absences import on_programs
from testbed.world.timeline import Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import Whom

LIVE = EngineSettings(seed=0, policy="")  # those of a live coordinator, unless it is told others
_NO_BOUND = 2**62


def silent_at(since_s: float, began_s: float) -> float:
    """When a coordinator that began at ``began_s`` ends the session of a device that says nothing any more."""
    return max(since_s + LIVE.liveness_s, began_s + LIVE.recovery_grace_s)


def simulated_settings(seed: int, policy: str, *, silent: bool = False) -> EngineSettings:
    """Where a device is alive, answers at once and says when it leaves, no time of the protocol ever runs out.

    ``silent``: devices can be out of reach, and take no offer then.
    """
    return EngineSettings(
        seed=seed,
        policy=policy,
        tiers=tiers_of(policy),
        liveness_s=math.inf,
        accept_timeout_s=LIVE.accept_timeout_s if silent else math.inf,
        recovery_grace_s=0.0,
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
    if whole.population is not None:
        devices = population_devices(whole.population, whole.seed, asked, whole.churn)
        _check_filled(whole, devices)
    else:
        devices = fleet_devices(whole, asked)
    return Simulation(
        settings=simulated_settings(scenario.seed, scenario.policy, silent=bool(devices.cuts)),
        jobs=tuple(jobs),
        kinds=devices.kinds,
        trace=devices.trace,
        samples=devices.samples,
        devices=devices.devices,
        names=devices.names,
        matching=scenario.match,
        tasks_per_session=devices.tasks_per_session,
        tasks_per_day=devices.tasks_per_day,
        limits=devices.limits,
        links=devices.links,
        cuts=devices.cuts,
        noise_sigma=scenario.noise,
        until_s=scenario.duration,
        breaks=tuple(_breaks(whole)),
        actions=devices.actions,
    )


def _check_filled(whole: Scenario, devices: Devices) -> None:
    """Raises UsageError for a job that asks for more devices than a population has for it."""
    eligible: dict[str, int] = {}
    for name, job in whole.jobs.items():
        _, text = whole.requirement_of(name)
        if text not in eligible:
            met = (requirement_of(text).matches(DeviceId(""), kind) for kind in devices.kinds)
            eligible[text] = sum(count for count, meets in zip(devices.of_kind, met, strict=True) if meets)
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
    """Only devices that have the job's data are eligible, as its driver tells the coordinator."""
    if data is None:
        return requirement
    has_data = Comparison("data", "=", data)
    return has_data if isinstance(requirement, AllDevices) else Every((requirement, has_data))
