"""Views: what a policy sees of the world, kept from plan to plan.

Of the open requests only those that changed since the last view are looked at again. What a view shows of a request
changes where its places, responses, rounds or tier do, and where its job is paused or its driver goes or comes. Whoever
changes that says so (``World.changed``); the invariants hold what is kept against all of it made anew. What only some
policies ask for is looked up when they ask.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Protocol, overload

import numpy as np

from coordinator.engine.chance import number_of
from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.plan import Collecting, GroupView, Integers, JobView, Requests, View
from coordinator.engine.profiles import ResponseTimes
from coordinator.engine.regions import Regions
from coordinator.engine.state import Request
from coordinator.engine.tiers import Tiers
from coordinator.engine.world import World

Key = tuple[float, JobId, RequestId]  # the order of a view: job arrival, job id, request
Fields = tuple[float, ...]  # of a record
Numbers = dict[GroupId, int]  # in the groups of a view


class Views:
    """Makes the views of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: tuple[GroupView, ...] = ()
        self._numbers: Numbers = {}
        self._wanting, self._collecting = _Rows(Requests), _Rows(Collecting)
        self._seen = Requests.of((), ()), Collecting.of((), ())
        self._jobs = OpenJobs(world)
        self._attained = Attained(self._jobs, lambda job: world.jobs[job].attained(world.now))
        self._tier_supply = TierSupply(world)

    def make(self) -> View:
        """The view of this moment."""
        world = self._world
        requests, collecting = self.seen()
        return View(
            now=world.now,
            seed=world.settings.seed,
            plan_number=world.plan_number,
            groups=world.regions.views(),
            requests=requests,
            supply=world.supply.by_region(world.regions),
            supply_span_s=world.supply.span_s,
            jobs=self._jobs,
            tiers=world.tiers.number,
            tier_supply=self._tier_supply,
            collecting=collecting,
            attained=self._attained,
        )

    def seen(self) -> tuple[Requests, Collecting]:
        """``requests`` and ``collecting`` of a view that is made now; the very objects of before if nothing changed."""
        world, (requests, collecting) = self._world, self._seen
        regrouped = world.regions.views() is not self._groups
        if not regrouped and not world.changed:
            return self._seen
        if regrouped:
            self._regroup(world.regions.views())
        numbers, changed = self._numbers, [(_key(request), request) for request in world.changed.values()]
        world.changed.clear()
        wanting, groups = self._wanting, self._groups
        if wanting.put((key, _wanting(request, numbers)) for key, request in changed) or regrouped:
            requests = Requests(wanting.words, tuple(wanting.jobs), groups)
        held = self._collecting
        if held.put((key, _collecting(request, numbers)) for key, request in changed) or regrouped:
            collecting = Collecting(held.words, tuple(held.jobs), groups)
        self._seen = requests, collecting
        return self._seen

    def anew(self) -> tuple[Requests, Collecting]:
        """The same from all open requests: the slow way."""
        fresh = Views(self._world)
        changed, self._world.changed = self._world.changed, dict(self._world.open_requests)
        found = fresh.seen()
        self._world.changed = changed
        return found

    def _regroup(self, groups: tuple[GroupView, ...]) -> None:
        """Number the groups as in this view. Requests of those that have gone are about to go."""
        before, self._groups = self._groups, groups
        numbers = self._numbers = {group.group: number for number, group in enumerate(groups)}
        after = np.array([numbers.get(group.group, -1) for group in before], np.int64)
        self._wanting.renumber(after)
        self._collecting.renumber(after)


_FORMATS = {np.int64: "q", np.uint64: "Q", np.float64: "d"}


class _Rows:
    """Rows of a view in the order of their keys."""

    __slots__ = ("_data", "_keys", "_of", "_row", "jobs", "words")

    def __init__(self, of: type[Requests] | type[Collecting]) -> None:
        self._of = of
        self._row = Struct("=" + "".join(_FORMATS[one.kind] for one in of.columns.values()))
        self._keys: list[Key] = []
        self._data = bytearray()  # the rows one after the other
        self.jobs: list[JobId] = []
        self.words = self._seen()  # never changed: whoever has it may keep it

    def renumber(self, numbers: Integers) -> None:
        """Give groups other numbers."""
        group = np.frombuffer(self._data, np.int64)[self._of.columns["group"].place :: len(self._of.columns)]
        group[:] = numbers[group]
        self.words = self._seen()

    def put(self, rows: Iterable[tuple[Key, Fields | None]]) -> bool:
        """The records of these keys from here on; None: it has none. False: nothing has changed."""
        keys, jobs, data, row, size = self._keys, self.jobs, self._data, self._row, self._row.size
        changed = False
        for key, fields in rows:
            at = bisect_left(keys, key)
            known = at < len(keys) and keys[at] == key
            if fields is None and not known:
                continue
            changed, place = True, at * size
            if fields is None:
                del keys[at], jobs[at], data[place : place + size]
            elif known:
                row.pack_into(data, place, *fields)
            else:
                keys.insert(at, key)
                jobs.insert(at, key[1])
                data[place:place] = row.pack(*fields)
        if changed:
            self.words = self._seen()
        return changed

    def _seen(self) -> Integers:
        return np.ndarray((len(self._keys), len(self._of.columns)), np.int64, bytes(self._data)).T


def _key(request: Request) -> Key:
    return request.job.arrival, request.job.spec.job, request.id


def _wanting(request: Request, numbers: Numbers) -> Fields | None:
    """None: it is over, may not be served, or has no unmet demand."""
    job, places, needed, left = request.job, request.places, request.needed, request.rounds_left
    if request.ended_at is not None or not job.followed or job.pauses:
        return None
    if request.asynchronous:
        lacking = places - request.placed
        places, wanted = needed, needed - request.held
    else:
        wanted = places - request.placed - request.counted
        lacking = wanted - places + needed
    if wanted <= 0:
        return None
    return (
        request.id,
        number_of(job.spec.job),
        job.arrival,
        numbers[job.group.id],
        wanted,
        wanted + (left - 1) * places if left is not None and left > 1 else wanted,
        left is not None,
        places,
        needed,
        lacking if lacking > 0 else 0,
        request.tier,
        request.opened_at,
        request.deadline_at,
    )


def _collecting(request: Request, numbers: Numbers) -> Fields | None:
    """None: it is over, may not be served, or lacks devices, or it is the last of its job; or asynchronous."""
    job, left = request.job, request.rounds_left
    if request.ended_at is not None or request.asynchronous or not job.followed or job.pauses or left == 1:
        return None
    if request.placed + request.counted < request.needed:
        return None
    return job.arrival, numbers[job.group.id], request.places, 0 if left is None else left - 1


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
