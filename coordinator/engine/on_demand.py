"""What a policy may ask for beyond what is in every view. Looked up when asked, so that others do not pay for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, overload

from coordinator.engine.ids import JobId, RegionId
from coordinator.engine.plan import JobView
from coordinator.engine.profiles import ResponseTimes
from coordinator.engine.regions import Regions
from coordinator.engine.tiers import Tiers
from coordinator.engine.world import World


class OpenJobs(Mapping[JobId, JobView]):
    """The unfinished jobs as they are, by arrival; whether a request of theirs is open or not."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getitem__(self, key: JobId) -> JobView:
        job = self._world.jobs[key]
        if job.ended:
            raise KeyError(key)
        latest, spec = job.latest, job.spec
        begun = latest.round if latest is not None else 1
        left = latest.rounds_left if latest is not None else spec.rounds
        return JobView(
            arrival=job.arrival,
            group=job.group.id,
            places=job.needed if spec.asynchronous else job.places,
            rounds=begun if left is None else begun + left - 1,
            tails_s=job.profiles.tails() if job.profiles is not None else (),
            responses=job.profiles.times() if job.profiles is not None else ResponseTimes(),
        )

    def __iter__(self) -> Iterator[JobId]:
        return (job.id for job in self._world.jobs.values() if not job.ended)

    def __len__(self) -> int:
        return len(self._world.jobs) - len(self._world.over)


class Attained(Mapping[JobId, float]):
    """Device-seconds leased so far to each unfinished job."""

    def __init__(self, jobs: Mapping[JobId, JobView], attained: Callable[[JobId], float]) -> None:
        """``jobs``: the unfinished ones."""
        self._jobs, self._attained = jobs, attained

    def __getitem__(self, key: JobId) -> float:
        return self._attained(key)

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


class Counted(Protocol):
    """Whose check-ins are counted: a world of the engine, or one like it."""

    tiers: Tiers
    regions: Regions


class TierSupply(Sequence[Mapping[RegionId, int]]):
    """Check-ins per region, of each tier."""

    def __init__(self, world: Counted) -> None:
        self._world = world

    @overload
    def __getitem__(self, index: int) -> Mapping[RegionId, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[RegionId, int]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[RegionId, int] | Sequence[Mapping[RegionId, int]]:
        supply, regions = self._world.tiers.supply, self._world.regions
        if isinstance(index, int):
            return supply[index].by_region(regions)
        return [one.by_region(regions) for one in supply[index]]

    def __len__(self) -> int:
        return len(self._world.tiers.supply)
