"""A scenario as it is simulated: the drawn jobs among the others, and everything multiplied by its scale."""

from fractions import Fraction

from testbed.scenario.model import Job, Scenario, Workload
from testbed.scenario.population import DrawnJobs, Population
from testbed.world.jobs import DrawnJob, draw_jobs, read_table, subset


def unfolded(scenario: Scenario) -> Scenario:
    """An equal scenario without ``drawn_jobs`` and with both scales at 1.

    ``scale`` multiplies the devices and the demands, ``rounds_scale`` the rounds and the arrivals: requests then ask
    for the same part of the devices, and jobs for the same part of the time between two arrivals. Raises UsageError if
    the table of jobs cannot be read.
    """
    jobs = {**scenario.jobs, **drawn(scenario)}
    changes = {
        "jobs": {name: _job(job, scenario) for name, job in jobs.items()},
        "fleets": {
            name: fleet.model_copy(update={"count": scaled(fleet.count, scenario.scale)})
            for name, fleet in scenario.fleets.items()
        },
        "population": scenario.population and _population(scenario.population, scenario.scale),
        "drawn_jobs": None,
        "scale": 1.0,
        "rounds_scale": 1.0,
    }
    return scenario.model_copy(update=changes)


def drawn(scenario: Scenario) -> dict[str, Job]:
    """The drawn jobs by name, in order of arrival, before any scale. Raises UsageError."""
    asked = scenario.drawn_jobs
    if asked is None:
        return {}
    table = subset(read_table(asked.table), asked.which)
    jobs = draw_jobs(asked.count, table, asked.requirement, asked.arrives, seed=scenario.seed)
    return {one.name: _as_job(one, asked) for one in jobs}


def scaled(count: int, scale: float) -> int:
    """``count`` times the scale as it is written, rounded half up, at least 1."""
    return max(1, int(count * Fraction(repr(scale)) + Fraction(1, 2)))


def _as_job(one: DrawnJob, asked: DrawnJobs) -> Job:
    return Job(
        requirement=one.requirement,
        demand=one.size.participants,
        rounds=one.size.rounds,
        deadline=one.size.deadline_s,
        min_response=asked.min_response,
        repeat=asked.repeat,
        arrives=one.arrives_s,
        workload=Workload(compute=asked.compute, download=asked.download, upload=asked.upload),
    )


def _population(population: Population, scale: float) -> Population:
    count, often = population.count, population.check_ins_per_day
    return population.model_copy(
        update={"count": count and scaled(count, scale), "check_ins_per_day": often and often * scale}
    )


def _job(job: Job, scenario: Scenario) -> Job:
    changes = {
        "demand": scaled(job.demand, scenario.scale),
        "buffer": job.buffer and scaled(job.buffer, scenario.scale),
        "arrives": job.arrives * scenario.rounds_scale,
        "rounds": job.rounds and scaled(job.rounds, scenario.rounds_scale),
        "max_rounds": job.max_rounds and scaled(job.max_rounds, scenario.rounds_scale),
    }
    return job.model_copy(update=changes)
