"""The whole state of a simulation in bulk, as arrays that compiled code can change.

A table has a row per thing and named columns; -1 stands for none. Sessions and leases are in slots that are used
again, so whoever keeps a slot keeps its number (``SEQ``) as well and compares. Times are seconds of engine time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.chance import Purpose, draw, mix, number_of
from coordinator.engine.model import Repeat, StragglerRule
from coordinator.engine.plan import UNDECIDED
from coordinator.engine.profiles import closing_percent
from coordinator.engine.scale import BINS, EDGES
from testbed.simulate.compiled.addresses import ANY, Layout, pass_by_address
from testbed.simulate.compiled.layout import (
    A_COLUMNS,
    AR_COLUMNS,
    AT_CHECK_IN,
    BITS,
    D_COLUMNS,
    DAILY,
    DUE,
    FINISHED,
    FREE_LEASE,
    FREE_SESSION,
    H_COLUMNS,
    J_ASYNCHRONOUS,
    J_COLUMNS,
    J_GROUP,
    J_HEAD,
    J_KNOWN,
    J_MASK,
    J_NEEDED,
    J_PLACES,
    J_RANK,
    J_REVOKES,
    J_ROUNDS,
    J_SIZE,
    J_STALENESS,
    J_STAMP,
    J_TAIL,
    J_TARGET,
    J_TIER,
    J_USED,
    JR_ARRIVAL,
    JR_BYTES,
    JR_COLUMNS,
    JR_COMPUTE_S,
    JR_DEADLINE,
    JR_DEADLINE_S,
    JR_ENDED,
    JR_LEASE_S,
    K_CELL,
    K_COUNTS,
    K_PER_DAY,
    K_PER_SESSION,
    L_COLUMNS,
    L_NEXT,
    MATCH_DRAW,
    NEXT_ARRIVAL,
    NOISE_DRAW,
    NONE,
    NUMBERS,
    ORDER_DRAW,
    P_COUNTS,
    P_PERCENT,
    PLANNER,
    PROFILED,
    R_GROUPS,
    REALS,
    REVIEW,
    ROWS_OF_JOBS,
    S_COLUMNS,
    S_NEXT,
    SR_COLUMNS,
    TIER_DRAW,
    TIERS,
    U_COLUMNS,
    UNFINISHED,
    UNTIL,
)
from testbed.simulate.model import Simulation, noise_table
from testbed.world.arrays import Matching, Reals

Integers = NDArray[np.int64]
_NO_BOUND = 2**62  # on staleness
_LINE = 64  # bytes of the processor's cache

# The type of each table, and its columns (and what is below them), which compiled code need not look up where they are
# known. Tables of one dimension have none.
COLUMNS: Mapping[str, Layout] = {
    "numbers": (np.int64,),
    "reals": (np.float64,),
    "real_bits": (np.uint64,),
    "bits": (np.uint64,),
    "jobs": (np.int64, J_COLUMNS),
    "job_reals": (np.float64, JR_COLUMNS),
    "leases": (np.int64, L_COLUMNS),
    "granted": (np.float64,),
    "given": (np.int64,),
    "sessions": (np.int64, S_COLUMNS),
    "session_reals": (np.float64, SR_COLUMNS),
    "devices": (np.int64, D_COLUMNS),
    "used": (np.int64, U_COLUMNS),
    "kinds": (np.int64, ANY),
    "cells": (np.int64, ANY),
    "candidates": (np.int32, ANY),
    "queues": (np.int64,),
    "queued": (np.int64,),
    "heap_at": (np.float64,),
    "heap": (np.int64, H_COLUMNS),
    "said": (np.int64, 3),
    "fresh": (np.int64,),
    "attempts": (np.int64, A_COLUMNS),
    "attempt_reals": (np.float64, AR_COLUMNS),
    "noise": (np.float64,),
    "edges": (np.float64,),
    "scores": (np.int64,),
    "cuts": (np.int64,),
    "profiles": (np.int64, ANY, P_COUNTS + BINS),
    "merged_of": (np.int64,),
    "ground": (np.int64, 2),
    "usable": (np.int64, ANY),
    "rates": (np.int64,),
    "tier_supply": (np.int64, ANY),
    "group_rates": (np.float64,),
    "group_tiers": (np.int64, ANY),
    "seconds": (np.float64, ANY),
    "start_s": (np.float64,),
    "end_s": (np.float64,),
    "device": (np.int64,),
    "interval": (np.int64,),
    "kind": (np.int32,),
    "slow": (np.float64,),
    "byte_s": (np.float64,),
}


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    numbers: Integers
    reals: Reals
    real_bits: NDArray[np.uint64]  # the same memory as ``reals``
    bits: NDArray[np.uint64]
    jobs: Integers
    job_reals: Reals
    leases: Integers
    granted: Reals  # per lease
    given: Integers  # per lease of an asynchronous job: the round whose model it works on
    sessions: Integers
    session_reals: Reals
    devices: Integers
    used: Integers  # devices that count in a round, by job
    kinds: Integers
    cells: Integers
    candidates: NDArray[np.int32]  # per cell
    queues: Integers  # where each begins in ``queued``, and the end
    queued: Integers  # jobs
    heap_at: Reals
    heap: Integers
    said: Integers  # reactions: what, of which, and its number
    fresh: Integers  # sessions
    attempts: Integers
    attempt_reals: Reals
    noise: Reals
    edges: Reals  # of the scale of scores and times
    scores: Integers  # that the tiers have not been told of, on that scale
    cuts: Integers  # bins between tiers
    profiles: Integers
    # What Venn's planner knows between its plans, see ``kernel_venn``.
    merged_of: Integers  # group -> merged groups
    ground: Integers  # per region: supply, the scarcest contender that can use it
    usable: Integers  # contender, region: 1 or 0
    rates: Integers  # per contender: supply of what it owns to begin with
    tier_supply: Integers  # per tier, region
    group_rates: Reals  # per group: supply of all that it can use
    group_tiers: Integers  # per tier, group: the same of a tier and all faster ones
    seconds: Reals  # per group, group: what a device for one costs a request of the other
    # Columns of the block, as of ``CheckIns``.
    start_s: Reals
    end_s: Reals
    device: Integers
    interval: Integers
    kind: NDArray[np.int32]
    slow: Reals
    byte_s: Reals
    words: Integers = field(init=False)  # for compiled code: of each table where it is, and its shape

    def __post_init__(self) -> None:
        for name, (kind, *columns) in COLUMNS.items():
            table = getattr(self, name)
            sound = table.dtype == kind and table.ndim == 1 + len(columns) and table.flags.c_contiguous
            if not sound or any(known not in (ANY, size) for known, size in zip(columns, table.shape[1:], strict=True)):
                raise TypeError(f"{name} is not contiguous, of {kind.__name__} and with {columns} columns")
        words = [(table.ctypes.data, *table.shape, 0, 0)[:4] for table in (getattr(self, name) for name in COLUMNS)]
        object.__setattr__(self, "words", np.array(words, np.int64))

    @property
    def address(self) -> int:
        """Of ``words``. The tables stay where they are as long as this object lives."""
        return int(self.words.ctypes.data)

    def with_(self, **others: NDArray[np.generic]) -> "Tables":
        """The same with other tables in place of some."""
        return Tables(**{name: getattr(self, name) for name in COLUMNS} | others)


def tables(
    simulation: Simulation, group_of: list[int], tiers: int, *, profiled: bool = True, slots: int = 1024
) -> Tables:
    """Before the first event. ``group_of``: number of each job's group. ``tiers``: that somebody asks for.

    ``profiled``: somebody asks for response times.
    """
    count, groups = len(simulation.jobs), max(group_of, default=-1) + 1
    numbers, reals, bits = np.zeros(NUMBERS, np.int64), np.zeros(REALS), np.zeros(BITS, np.uint64)
    numbers[[PLANNER, FINISHED]] = NONE
    numbers[[UNFINISHED, ROWS_OF_JOBS]] = count
    at_check_in = simulation.matching is Matching.AT_CHECK_IN
    kinds = _kinds(simulation, tiers, at_check_in)
    numbers[AT_CHECK_IN], numbers[DAILY], numbers[TIERS] = at_check_in, kinds[:, K_PER_DAY].any(), tiers
    numbers[PROFILED] = profiled
    reals[[DUE, REVIEW, NEXT_ARRIVAL]], reals[UNTIL] = np.inf, simulation.until_s
    seed = simulation.settings.seed & (2**64 - 1)
    for where, purpose in (
        (MATCH_DRAW, Purpose.MATCH),
        (NOISE_DRAW, Purpose.NOISE),
        (ORDER_DRAW, Purpose.ORDER),
        (TIER_DRAW, Purpose.TIER),
    ):
        bits[where] = mix(mix(seed) ^ purpose)
    jobs, job_reals = _jobs(simulation, group_of)
    noise = noise_table(simulation.noise_sigma) if simulation.noise_sigma > 0 else np.empty(0)
    return Tables(
        numbers=numbers,
        reals=reals,
        real_bits=reals.view(np.uint64),
        bits=bits,
        jobs=jobs,
        job_reals=job_reals,
        leases=_free(slots, L_COLUMNS, L_NEXT),
        granted=np.zeros(slots),
        given=np.zeros(slots, np.int64),
        sessions=_free(slots, S_COLUMNS, S_NEXT),
        session_reals=np.zeros((slots, SR_COLUMNS)),
        devices=np.zeros((0, D_COLUMNS), np.int64),
        used=_used(jobs, simulation),
        kinds=kinds,
        cells=np.zeros((0, R_GROUPS + groups), np.int64),
        candidates=np.zeros((0, count), np.int32),
        queues=np.zeros(count + groups + 2, np.int64),
        queued=np.zeros(count, np.int64),
        heap_at=np.zeros(4 * slots),
        heap=np.zeros((4 * slots, H_COLUMNS), np.int64),
        said=np.zeros((4 * slots + 4 * count, 3), np.int64),
        fresh=np.zeros(slots, np.int64),
        attempts=np.zeros((2 * count + 1024, A_COLUMNS), np.int64),
        attempt_reals=np.zeros((2 * count + 1024, AR_COLUMNS)),
        noise=noise,
        edges=np.array(EDGES),
        scores=np.zeros(BINS, np.int64),
        cuts=np.zeros(max(tiers - 1, 1), np.int64),
        profiles=_profiles(simulation, tiers, profiled),
        merged_of=np.zeros(groups, np.int64),
        ground=np.zeros((0, 2), np.int64),
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


def _kinds(simulation: Simulation, tiers: int, at_check_in: bool) -> Integers:
    kinds = np.zeros((len(simulation.kinds), K_COUNTS + (tiers + 1 if tiers > 1 else 1)), np.int64)
    kinds[:, K_CELL] = NONE
    if simulation.limits:
        kinds[:, [K_PER_SESSION, K_PER_DAY]] = simulation.limits
    else:
        kinds[:, [K_PER_SESSION, K_PER_DAY]] = simulation.tasks_per_session, simulation.tasks_per_day
    if at_check_in:
        kinds[:, K_PER_SESSION] = 1
    return kinds


def _profiles(simulation: Simulation, tiers: int, profiled: bool) -> Integers:
    """An empty table of response times for each job; none where nobody asks for them."""
    jobs = [job.spec for job in simulation.jobs] if profiled else []
    profiles = np.zeros((len(jobs), 2 + tiers, P_COUNTS + BINS), np.int64)
    for row, spec in enumerate(jobs):
        profiles[row, :, P_PERCENT] = closing_percent(spec.responses_needed, spec.places)
    return profiles


def _jobs(simulation: Simulation, group_of: list[int]) -> tuple[Integers, Reals]:
    jobs = np.zeros((len(simulation.jobs), J_COLUMNS), np.int64)
    reals = np.zeros((len(simulation.jobs), JR_COLUMNS))
    jobs[:, [J_HEAD, J_TAIL]], jobs[:, J_TIER] = NONE, UNDECIDED
    reals[:, JR_DEADLINE], reals[:, JR_ENDED] = np.inf, np.nan
    seed = simulation.settings.seed
    draws = [draw(seed, Purpose.JOB_ORDER, number_of(job.spec.job)) for job in simulation.jobs]
    jobs[np.array(sorted(range(len(draws)), key=draws.__getitem__), np.int64), J_RANK] = np.arange(len(draws))
    for row, job in enumerate(simulation.jobs):
        spec, work = job.spec, job.spec.workload
        jobs[row, J_GROUP] = group_of[row]
        jobs[row, J_NEEDED], jobs[row, J_PLACES] = spec.responses_needed, spec.places
        jobs[row, J_TARGET] = jobs[row, J_SIZE] = spec.places
        jobs[row, J_ROUNDS], jobs[row, J_KNOWN] = job.rounds, NONE if spec.rounds is None else spec.rounds
        jobs[row, J_REVOKES] = spec.stragglers is StragglerRule.REVOKE
        reals[row, [JR_ARRIVAL, JR_DEADLINE_S, JR_LEASE_S]] = job.arrives_s, spec.deadline_s, spec.lease_s
        if spec.asynchronous is not None:
            stalest = spec.asynchronous.max_staleness
            jobs[row, J_ASYNCHRONOUS], jobs[row, J_STALENESS] = 1, _NO_BOUND if stalest is None else stalest
            jobs[row, J_SIZE] = spec.responses_needed
            reals[row, JR_DEADLINE_S] = np.inf
        reals[row, [JR_COMPUTE_S, JR_BYTES]] = work.compute_s, float(work.download_bytes + work.upload_bytes)
    return jobs, reals


def _used(jobs: Integers, simulation: Simulation) -> Integers:
    """Tables of devices that count in a round: of each job that does not allow them to count again, and all empty."""
    rows = 0
    for row, job in enumerate(simulation.jobs):
        jobs[row, [J_USED, J_MASK, J_STAMP]] = rows, NONE, row
        if job.spec.repeat is Repeat.ONCE:
            jobs[row, J_MASK] = (1 << (2 * job.spec.responses_needed - 1).bit_length()) - 1
            rows += int(jobs[row, J_MASK]) + 1
    return np.zeros((rows, U_COLUMNS), np.int64)


def _free(slots: int, columns: int, next_: int) -> Integers:
    """All free, in a chain."""
    table = np.zeros((slots, columns), np.int64)
    table[:, next_] = np.arange(1, slots + 1)
    table[-1:, next_] = NONE
    return table


def more_slots(now: Tables) -> Tables:
    """Twice as many of them, and of entries of the heap; there was none left of one or the other."""
    slots = len(now.granted)
    leases, sessions = _free(2 * slots, L_COLUMNS, L_NEXT), _free(2 * slots, S_COLUMNS, S_NEXT)
    for table, old, next_, free in (
        (leases, now.leases, L_NEXT, FREE_LEASE),
        (sessions, now.sessions, S_NEXT, FREE_SESSION),
    ):
        table[:slots] = old
        table[-1, next_] = now.numbers[free]  # the old ones that are free come after the new ones
        now.numbers[free] = slots
    return now.with_(
        leases=leases,
        granted=longer(now.granted, 2 * slots),
        given=longer(now.given, 2 * slots),
        sessions=sessions,
        session_reals=longer(now.session_reals, 2 * slots),
        heap_at=longer(now.heap_at, 2 * len(now.heap_at)),
        heap=longer(now.heap, 2 * len(now.heap)),
        said=longer(now.said, 2 * len(now.said)),
        fresh=longer(now.fresh, 2 * slots),
    )


def longer(table: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """The same rows, and zeros."""
    more = np.zeros((rows, *table.shape[1:]), table.dtype)
    more[: len(table)] = table
    return more


def more_devices(table: Integers, rows: int) -> Integers:
    """The same rows, and zeros. Each row is a line of the processor's cache, and so one wait for the memory."""
    words = np.zeros((rows + 1) * D_COLUMNS, np.int64)
    first = -words.ctypes.data % _LINE // words.itemsize
    more = words[first : first + rows * D_COLUMNS].reshape(rows, D_COLUMNS)
    more[: len(table)] = table
    return more


pass_by_address(Tables, COLUMNS)
