"""The whole state of a simulation in bulk, as arrays that compiled code can change.

A table has a row per thing and named columns; -1 stands for none. Sessions and leases are in slots that are used
again, so whoever keeps a slot keeps its number (``SEQ``) as well and compares. Times are seconds of engine time.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.chance import Purpose, begun, number_of
from coordinator.engine.model import Repeat, StragglerRule
from coordinator.engine.plan import UNDECIDED
from coordinator.engine.profiles import closing_percent
from coordinator.engine.scale import BINS, EDGES
from testbed.simulate.compiled.compiled import COMPILES
from testbed.simulate.compiled.layout import (
    ATTEMPT,
    CELL,
    COLLECTING,
    COMING,
    DEVICE,
    ENDS,
    GROUND,
    JOB,
    KIND,
    LEASE,
    NONE,
    PROFILE,
    REACTION,
    REQUEST,
    RUN,
    SESSION,
    USED,
    VAIN,
    WORDS,
)
from testbed.simulate.model import Simulation, noise_table
from testbed.world.arrays import Matching, Reals

Integers = NDArray[np.int64]
Records = NDArray[np.void]
_NO_BOUND = 2**62  # on staleness
_LINE = 64  # bytes of the processor's cache
_VAIN_ROWS = 4  # for each pair that may hold places in vain before there is more room, when there is
SPREAD_DEVICE, SPREAD_JOB = 2_654_435_761, 40_503  # 2^32 and 2^16 over the golden ratio; devices are below 2^31


def _of(kind: type | np.dtype[np.void], dimensions: int = 1) -> dict[str, Any]:
    """A table of such values."""
    return {"kind": np.dtype(kind), "dimensions": dimensions}


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    runs: Records = field(metadata=_of(RUN))  # one
    ends: Integers = field(metadata=_of(int))  # leases ended, by reason
    jobs: Records = field(metadata=_of(JOB))
    leases: Records = field(metadata=_of(LEASE))
    sessions: Records = field(metadata=_of(SESSION))
    devices: Records = field(metadata=_of(DEVICE))
    used: Records = field(metadata=_of(USED))  # devices that count in a round, by job
    vain: Records = field(metadata=_of(VAIN))  # places held in vain, by device and job
    kinds: Records = field(metadata=_of(KIND))
    counted: Integers = field(
        metadata=_of(int, 2)
    )  # per kind: check-ins that the supply has not been told of, by tier: none, each
    cells: Records = field(metadata=_of(CELL))
    serves: NDArray[np.bool_] = field(metadata=_of(bool, 2))  # per cell and group
    candidates: NDArray[np.int32] = field(metadata=_of(np.int32, 2))  # per cell
    queues: Integers = field(metadata=_of(int))  # where each begins in ``queued``, and the end
    queued: Integers = field(metadata=_of(int))  # jobs; after those of the plan jobs in collection
    requests: Records = field(metadata=_of(REQUEST))  # that the present plan saw, by job
    collecting: Records = field(metadata=_of(COLLECTING))  # likewise
    heap: Records = field(metadata=_of(COMING))
    said: Records = field(metadata=_of(REACTION))
    fresh: Integers = field(metadata=_of(int))  # sessions
    attempts: Records = field(metadata=_of(ATTEMPT))
    noise: Reals = field(metadata=_of(float))
    edges: Reals = field(metadata=_of(float))  # of the scale of scores and times
    scores: Integers = field(metadata=_of(int))  # that the tiers have not been told of, on that scale
    cuts: Integers = field(metadata=_of(int))  # bins between tiers
    profiles: Records = field(metadata=_of(PROFILE, 2))
    # What Venn's planner knows between its plans, see ``kernel_venn``.
    merged_of: Integers = field(metadata=_of(int))  # group -> merged groups
    ground: Records = field(metadata=_of(GROUND))  # per region
    usable: Integers = field(metadata=_of(int, 2))  # contender, region: 1 or 0
    rates: Integers = field(metadata=_of(int))  # per contender: supply of what it owns to begin with
    tier_supply: Integers = field(metadata=_of(int, 2))  # per tier, region
    group_rates: Reals = field(metadata=_of(float))  # per group: supply of all that it can use
    group_tiers: Integers = field(metadata=_of(int, 2))  # per tier, group: the same of a tier and all faster ones
    seconds: Reals = field(
        metadata=_of(float, 2)
    )  # per group, group: what a device for one costs a request of the other
    # Columns of the block, as of ``CheckIns``.
    start_s: Reals = field(metadata=_of(float))
    end_s: Reals = field(metadata=_of(float))
    device: Integers = field(metadata=_of(int))
    interval: Integers = field(metadata=_of(int))
    kind: NDArray[np.int32] = field(metadata=_of(np.int32))
    slow: Reals = field(metadata=_of(float))
    byte_s: Reals = field(metadata=_of(float))
    words: Integers = field(init=False)  # for compiled code: of each table where it is, and its shape

    def __post_init__(self) -> None:
        words = []
        for name, (kind, dimensions) in TABLES.items():
            table = getattr(self, name)
            if table.dtype != kind or table.ndim != dimensions or not table.flags.c_contiguous:
                raise TypeError(f"{name} is not contiguous, of {kind} and with {dimensions} dimensions")
            words.append((table.ctypes.data, *table.shape, 0)[:WORDS])
        object.__setattr__(self, "words", np.array(words, np.int64))

    @property
    def run(self) -> Any:
        """What there is one of."""
        return self.runs[0]

    @property
    def address(self) -> int:
        """The address of ``words``. The tables stay where they are as long as this object lives."""
        return int(self.words.ctypes.data)

    def with_(self, **others: NDArray[np.generic]) -> "Tables":
        """The same with other tables in place of some."""
        return Tables(**{name: getattr(self, name) for name in TABLES} | others)


TABLES = {one.name: (one.metadata["kind"], one.metadata["dimensions"]) for one in fields(Tables) if one.init}


def tables(
    simulation: Simulation, group_of: list[int], tiers: int, *, profiled: bool = True, slots: int = 1024
) -> Tables:
    """The tables before the first event. ``group_of``: number of each job's group. ``tiers``: somebody asks for them.

    ``profiled``: somebody asks for response times.
    """
    count, groups = len(simulation.jobs), max(group_of, default=-1) + 1
    at_check_in = simulation.matching is Matching.AT_CHECK_IN
    jobs, kinds = _jobs(simulation, group_of), _kinds(simulation, at_check_in)
    return Tables(
        runs=_run(simulation, tiers, profiled=profiled, daily=bool(kinds["per_day"].any())),
        ends=np.zeros(len(ENDS), np.int64),
        jobs=jobs,
        leases=_free(slots, LEASE),
        sessions=_free(slots, SESSION),
        devices=np.zeros(0, DEVICE),
        used=_used(jobs, simulation),
        vain=_no_vain(1 << (_VAIN_ROWS * slots - 1).bit_length()),
        kinds=kinds,
        counted=np.zeros((len(kinds), tiers + 1 if tiers > 1 else 1), np.int64),
        cells=np.zeros(0, CELL),
        serves=np.zeros((0, groups), np.bool_),
        candidates=np.zeros((0, count), np.int32),
        queues=np.zeros(count + groups + 2, np.int64),
        queued=np.zeros(2 * count, np.int64),
        requests=np.zeros(count, REQUEST),
        collecting=np.zeros(count, COLLECTING),
        heap=np.zeros(4 * slots, COMING),
        said=np.zeros(4 * slots + 4 * count, REACTION),
        fresh=np.zeros(slots, np.int64),
        attempts=np.zeros(2 * count + 1024, ATTEMPT),
        noise=noise_table(simulation.noise_sigma) if simulation.noise_sigma > 0 else np.empty(0),
        edges=np.array(EDGES),
        scores=np.zeros(BINS, np.int64),
        cuts=np.zeros(max(tiers - 1, 1), np.int64),
        profiles=_profiles(simulation, tiers, profiled),
        merged_of=np.zeros(groups, np.int64),
        ground=np.zeros(0, GROUND),
        usable=np.zeros((0, 0), np.int64),
        rates=np.zeros(0, np.int64),
        tier_supply=np.zeros((tiers, 0), np.int64),
        group_rates=np.zeros(groups),
        group_tiers=np.zeros((tiers, groups), np.int64),
        seconds=np.zeros((groups, groups)),
        start_s=np.zeros(0),
        end_s=np.zeros(0),
        device=np.zeros(0, np.int64),
        interval=np.zeros(0, np.int64),
        kind=np.zeros(0, np.int32),
        slow=np.zeros(0),
        byte_s=np.zeros(0),
    )


def _run(simulation: Simulation, tiers: int, *, profiled: bool, daily: bool) -> Records:
    runs = np.zeros(1, RUN)
    run: Any = runs[0]
    run.planner = run.finished = NONE
    run.unfinished = len(simulation.jobs)
    run.at_check_in, run.daily = simulation.matching is Matching.AT_CHECK_IN, daily
    run.tiers, run.profiled = tiers, profiled
    run.due = run.review = run.wake = run.next_arrival = np.inf
    settings = simulation.settings
    run.vain_leases = settings.vain_leases
    run.cooling_first_s, run.cooling_most_s = settings.cooling_first_s, settings.cooling_most_s
    run.until = simulation.until_s
    seed = settings.seed
    run.match_draw, run.noise_draw = begun(seed, Purpose.MATCH), begun(seed, Purpose.NOISE)
    run.order_draw, run.tier_draw = begun(seed, Purpose.ORDER), begun(seed, Purpose.TIER)
    run.job_order_draw = begun(seed, Purpose.JOB_ORDER)
    return runs


def _kinds(simulation: Simulation, at_check_in: bool) -> Records:
    kinds = np.zeros(len(simulation.kinds), KIND)
    kinds["cell"] = NONE
    limits = simulation.limits or [(simulation.tasks_per_session, simulation.tasks_per_day)] * len(kinds)
    kinds["per_session"], kinds["per_day"] = np.array(limits, np.int64).reshape(-1, 2).T
    if at_check_in:
        kinds["per_session"] = 1
    return kinds


def _profiles(simulation: Simulation, tiers: int, profiled: bool) -> Records:
    """An empty profile of response times for each job, of each kind; none where nobody asks for them."""
    jobs = [job.spec for job in simulation.jobs] if profiled else []
    profiles = np.zeros((len(jobs), 2 + tiers), PROFILE)
    for row, spec in enumerate(jobs):
        profiles["percent"][row] = closing_percent(spec.responses_needed, spec.places)
    return profiles


def _jobs(simulation: Simulation, group_of: list[int]) -> Records:
    jobs = np.zeros(len(simulation.jobs), JOB)
    jobs["head"] = jobs["tail"] = NONE
    jobs["tier"], jobs["deadline"], jobs["ended"] = UNDECIDED, np.inf, np.nan
    for row, job in enumerate(simulation.jobs):
        spec, work, one = job.spec, job.spec.workload, jobs[row]
        one.group, one.draws_by = group_of[row], number_of(spec.job)
        one.needed, one.places = spec.responses_needed, spec.places
        one.target = one.plan_places = spec.places
        one.rounds, one.known = job.rounds, NONE if spec.rounds is None else spec.rounds
        one.revokes = spec.stragglers is StragglerRule.REVOKE
        one.arrival, one.deadline_s, one.lease_s = job.arrives_s, spec.deadline_s, spec.lease_s
        if spec.asynchronous is not None:
            stalest = spec.asynchronous.max_staleness
            one.asynchronous, one.staleness = 1, _NO_BOUND if stalest is None else stalest
            one.plan_places = spec.responses_needed
            one.deadline_s = np.inf
        one.compute_s, one.bytes = work.compute_s, float(work.download_bytes + work.upload_bytes)
    return jobs


def _used(jobs: Records, simulation: Simulation) -> Records:
    """Tables of devices that count in a round: of each job that does not allow them to count again, and all empty."""
    rows = 0
    for row, job in enumerate(simulation.jobs):
        one = jobs[row]
        one.used, one.mask, one.stamp = rows, NONE, row
        if job.spec.repeat is Repeat.ONCE:
            one.mask = (1 << (2 * job.spec.responses_needed - 1).bit_length()) - 1
            rows += int(one.mask) + 1
    return np.zeros(rows, USED)


def _free(slots: int, kind: np.dtype[np.void]) -> Records:
    """All free, in a chain."""
    table = np.zeros(slots, kind)
    table["next"] = np.arange(1, slots + 1)
    table["next"][-1:] = NONE
    return table


def more_room(now: Tables) -> Tables:
    """The tables with more room: twice as many slots and entries of the heap, or rows for places held in vain."""
    run = now.run
    if min(run.free_lease, run.free_session) > NONE and run.heap + 3 <= len(now.heap):
        return _more_vain(now)
    slots = len(now.leases)
    leases, sessions = _free(2 * slots, LEASE), _free(2 * slots, SESSION)
    for table, old, free in ((leases, now.leases, "free_lease"), (sessions, now.sessions, "free_session")):
        table[:slots] = old
        table["next"][-1] = run[free]  # the old ones that are free come after the new ones
        run[free] = slots
    return now.with_(
        leases=leases,
        sessions=sessions,
        heap=longer(now.heap, 2 * len(now.heap)),
        said=longer(now.said, 2 * len(now.said)),
        fresh=longer(now.fresh, 2 * slots),
    )


def _no_vain(rows: int) -> Records:
    table = np.zeros(rows, VAIN)
    table["device_no"] = NONE
    return table


def _more_vain(now: Tables) -> Tables:
    """The tables with a table of places held in vain that has room again, without what was forgotten, or whose job has
    ended.
    """
    held = now.vain[now.vain["held"] > 0.0]
    over = ~np.isnan(now.jobs["ended"][held["job"]])
    np.subtract.at(now.devices["vain"], held["device_no"][over], 1)
    kept = held[~over]
    rows = len(now.vain)
    while rows < _VAIN_ROWS * (len(kept) + now.run.live + 1):
        rows *= 2
    table, left = _no_vain(rows), kept
    places = (left["device_no"] * SPREAD_DEVICE + left["job"] * SPREAD_JOB >> 16) & (rows - 1)
    while len(left):
        _, first = np.unique(places, return_index=True)
        here = first[table["device_no"][places[first]] == NONE]
        table[places[here]] = left[here]
        left, places = np.delete(left, here), (np.delete(places, here) + 1) & (rows - 1)
    now.run.vains = len(kept)
    return now.with_(vain=table)


def longer(table: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """The same rows, and zeros."""
    more = np.zeros((rows, *table.shape[1:]), table.dtype)
    more[: len(table)] = table
    return more


def more_devices(table: Records, rows: int) -> Records:
    """The same rows, and zeros. Each row is a line of the processor's cache, and so one wait for the memory."""
    memory = np.zeros(rows * _LINE + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    more = memory[first : first + rows * _LINE].view(DEVICE)
    more[: len(table)] = table
    return more


if COMPILES:
    from testbed.simulate.compiled.addresses import pass_by_address

    pass_by_address(Tables, TABLES, run="runs")
