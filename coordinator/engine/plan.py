"""What a policy sees (the view) and what it returns (the plan).

A policy never sees a device. Matching a check-in is a look-up: for the device's region, try the queue that owns it and
then the others in their order, each request by request, and take the first that is open, unfilled, not paused and whose
group the region is in (``ORDERED``); or draw one uniformly from all such requests, sorted by (job arrival, job id)
(``UNIFORM``). So no device is turned away while a queued request could use it.

A round closes at K responses and asks for C places. A plan may name a *target* of K to C places for a request, C if it
names none. Requests that are below theirs come first, in the order of the plan, and then the others, in the same order.
A new plan is made when a request reaches its target, or falls below it.

A plan may also restrict a request to the devices of one tier, or of that and all faster ones (``or_faster``); those of
other tiers flow on to the next request. That is decided once per attempt, when a plan first names it: from then on its
restriction can only be lifted, for good.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from numbers import Integral, Real
from operator import is_
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.chance import number_of
from coordinator.engine.ids import GroupId, JobId, RegionId, RequestId
from coordinator.engine.profiles import ResponseTimes

Reasons = Iterable[tuple[JobId, str]]  # why its request waits, beyond a lack of devices; of a job once

UNDECIDED = -1  # no plan has said yet which tier an attempt is for
ANY_TIER = -2  # a plan has said: for all
LIFTED = -3  # it was restricted, and is for all again


class RequestView(NamedTuple):
    """An open request of a job that may be served: with unmet demand, or asynchronous, which may be full."""

    request: RequestId
    job: JobId
    arrival: float  # of the job, engine time
    group: GroupId
    remaining: int  # places still to be leased, >= 1; asynchronously responses that its buffer lacks
    remaining_all_rounds: int | None  # over all rounds left, this one's remaining included; None: unknown
    places: int = 1  # of the attempt: C; asynchronously its buffer
    needed: int = 1  # responses that close the round: K; asynchronously its buffer
    lacking: int = 0  # places until leases and counted responses reach K; 0: it has enough. Asynchronously places that
    # no lease has
    tier: int = UNDECIDED  # that it is restricted to, >= 0; or UNDECIDED, ANY_TIER, LIFTED
    opened_at: float = 0.0  # engine time
    deadline_at: float = math.inf  # engine time; it aborts then. inf: asynchronous

    @property
    def placed(self) -> int:
        """Live leases and counted responses; asynchronously the responses that its buffer has."""
        return self.places - self.remaining

    @property
    def left(self) -> int:
        """``remaining_all_rounds`` where it is known, otherwise ``remaining``."""
        return self.remaining if self.remaining_all_rounds is None else self.remaining_all_rounds


class CollectingView(NamedTuple):
    """A job whose open request has leases and responses for all that it needs, and that has another round to come.

    Asynchronous jobs are never among them.
    """

    job: JobId
    arrival: float  # of the job, engine time
    group: GroupId
    places: int  # that one round takes: C
    rounds_left: int | None  # after the open one, >= 1; None: unknown


class JobView(NamedTuple):
    """An unfinished job."""

    arrival: float  # engine time
    group: GroupId
    places: int  # that one round takes: C; asynchronously its buffer
    rounds: int  # all of them, done or not; where their number is not known, those begun; at least 1
    tails_s: tuple[float, ...] = ()  # of its response time: over all tiers, then of each; 0: unknown
    responses: ResponseTimes = ResponseTimes()  # the whole profile that these are taken from; live


@dataclass(frozen=True)
class GroupView:
    """A job group with an unfinished job; its requests may be none."""

    group: GroupId
    regions: tuple[RegionId, ...]  # its eligible set, ascending

    @cached_property
    def bits(self) -> int:
        """Its regions as the bits of one number: two groups share devices where ``a.bits & b.bits`` is not 0."""
        bits = bytearray(self.regions[-1] // 8 + 1 if self.regions else 0)
        for region in self.regions:
            bits[region >> 3] |= 1 << (region & 7)
        return int.from_bytes(bits, "little")


Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Row = TypeVar("Row", RequestView, CollectingView)
Kind = TypeVar("Kind", bound=np.generic)


class Column(Generic[Kind]):
    """A field of all rows of a table, as an array."""

    def __init__(self, kind: type[Kind]) -> None:
        self.kind = kind

    def __set_name__(self, table: type["Table[Any]"], name: str) -> None:
        self.place = [one for one in vars(table) if isinstance(vars(table)[one], Column)].index(name)

    def __get__(self, table: "Table[Any]", of: object = None) -> NDArray[Kind]:
        column: NDArray[Kind] = table.words[self.place].view(self.kind)
        return column


class Table(Sequence[Row]):
    """Rows of a view, and their fields as columns. Read-only.

    A column has the name of the field, and its unit; ``group`` is the number of the group in ``View.groups``.
    """

    __slots__ = ("_rows", "groups", "jobs", "words")
    columns: Mapping[str, Column[Any]]  # by name, in their order
    record: np.dtype[np.void]  # a row, of these fields

    def __init_subclass__(cls) -> None:
        cls.columns = {name: one for name, one in vars(cls).items() if isinstance(one, Column)}
        cls.record = np.dtype([(name, one.kind) for name, one in cls.columns.items()])

    def __init__(self, words: Integers, jobs: Sequence[JobId], groups: Sequence[GroupView]) -> None:
        """``words``: the columns, one after the other, each field 8 bytes. ``jobs``: of each row. They are not copied.

        ``groups``: of the view.
        """
        words.flags.writeable = False
        self.words, self.jobs, self.groups = words, jobs, groups
        self._rows: tuple[Row, ...] | None = None  # made when asked for

    @classmethod
    def of(cls, rows: Iterable[Row], groups: Sequence[GroupView]) -> Self:
        """Make a table of these rows, in this order, for a view of these groups."""
        given = list(rows)
        numbers = {group.group: number for number, group in enumerate(groups)}
        return cls(cls.packed([cls._fields(one, numbers) for one in given]), tuple([one.job for one in given]), groups)

    @classmethod
    def packed(cls, rows: Sequence[tuple[float, ...]]) -> Integers:
        """The words of rows that have all fields, in the order of the columns."""
        return np.array(rows, cls.record).view(np.int64).reshape(len(rows), len(cls.columns)).T

    @classmethod
    def stacked(cls, *columns: NDArray[np.generic]) -> Integers:
        """The words of all columns, in their order."""
        kinds = [one.kind for one in cls.columns.values()]
        return np.stack([one.astype(kind).view(np.int64) for one, kind in zip(columns, kinds, strict=True)])

    @staticmethod
    def _fields(row: Row, numbers: Mapping[GroupId, int]) -> tuple[float, ...]:
        raise NotImplementedError

    def _row(self, job: JobId, fields: tuple[Any, ...]) -> Row:
        raise NotImplementedError

    @property
    def rows(self) -> tuple[Row, ...]:
        if self._rows is None:
            records: Any = np.ascontiguousarray(self.words.T).view(self.record).reshape(-1)
            self._rows = tuple(map(self._row, self.jobs, records.tolist()))
        return self._rows

    def take(self, places: NDArray[np.integer[Any]]) -> Self:
        """The rows at these places, in this order."""
        jobs = self.jobs
        return type(self)(self.words[:, places], tuple([jobs[place] for place in places.tolist()]), self.groups)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if self._rows is None and not isinstance(index, slice):
            return self._row(self.jobs[index], self.words[:, index].copy().view(self.record)[0].item())
        return self.rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.rows}"


class Requests(Table[RequestView]):
    """The open requests of a view: ``requests[0].remaining`` of one, ``requests.remaining`` of all, as an array."""

    __slots__ = ()

    request = Column(np.int64)
    draws_by = Column(np.uint64)  # what stands for the job in draws: ``chance.number_of`` its id
    arrival = Column(np.float64)
    group = Column(np.int64)
    remaining = Column(np.int64)
    left = Column(np.int64)
    rounds_known = Column(np.int64)  # 1, or 0: ``remaining_all_rounds`` is not known
    places = Column(np.int64)
    needed = Column(np.int64)
    lacking = Column(np.int64)
    tier = Column(np.int64)
    opened_at = Column(np.float64)
    deadline_at = Column(np.float64)

    @property
    def placed(self) -> Integers:
        return self.places - self.remaining

    def ids(self, places: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> tuple[RequestId, ...]:
        """Request ids of the rows at these places, in this order: a queue of a plan. Or of those where it is True."""
        return tuple(self.request[places].tolist())

    @staticmethod
    def _fields(row: RequestView, numbers: Mapping[GroupId, int]) -> tuple[float, ...]:
        known = row.remaining_all_rounds is not None
        group = numbers[row.group]
        return row.request, number_of(row.job), row.arrival, group, row.remaining, row.left, known, *row[6:]

    def _row(self, job: JobId, fields: tuple[Any, ...]) -> RequestView:
        request, _, arrival, group, remaining, left, known, *others = fields
        all_rounds = left if known else None
        return RequestView(request, job, arrival, self.groups[group].group, remaining, all_rounds, *others)


class Collecting(Table[CollectingView]):
    """The jobs in collection of a view, as rows and as columns."""

    __slots__ = ()

    arrival = Column(np.float64)
    group = Column(np.int64)
    places = Column(np.int64)
    rounds_left = Column(np.int64)  # 0: not known

    @staticmethod
    def _fields(row: CollectingView, numbers: Mapping[GroupId, int]) -> tuple[float, ...]:
        return row.arrival, numbers[row.group], row.places, row.rounds_left or 0

    def _row(self, job: JobId, fields: tuple[Any, ...]) -> CollectingView:
        arrival, group, places, rounds_left = fields
        return CollectingView(job, arrival, self.groups[group].group, places, rounds_left or None)


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees at one instant; read-only.

    While nothing in them has changed ``groups``, ``supply``, ``requests`` and ``collecting`` are the very objects of
    the view before, so that a policy can keep what it derived from them.
    """

    now: float
    seed: int
    plan_number: int  # of the plan that is being made, from 1
    groups: tuple[GroupView, ...]  # by group id
    requests: Requests  # by (job arrival, job id, request)
    supply: Mapping[RegionId, int]  # check-ins counted over the window; absent: none
    supply_span_s: float  # that the counts cover, > 0: rate = count / span
    jobs: Mapping[JobId, JobView] = field(default_factory=dict)  # all unfinished ones; live, made when asked for
    tiers: int = 1  # of devices by speed, in equal numbers, 0 the fastest; 1: there are none
    tier_supply: Sequence[Mapping[RegionId, int]] = ()  # of each tier, over the same span; kept like ``supply``
    collecting: Collecting = field(default_factory=lambda: Collecting.of((), ()))  # by (job arrival, job id)
    attained: Mapping[JobId, float] = field(default_factory=dict)  # device-seconds leased to each so far; like ``jobs``

    def showing(self, *requests: RequestView) -> "View":
        """The same with these requests in place of its own, for tests."""
        return replace(self, requests=Requests.of(requests, self.groups))


class Mode(StrEnum):
    ORDERED = "ordered"
    UNIFORM = "uniform"


def _no_reasons() -> Reasons:
    return ()


@dataclass(frozen=True)
class Plan:
    """A decision of a policy: who gets the next device.

    Thousands of plans are made for each that somebody asks about: so why requests wait is a function, which holds what
    it needs of the view (``View.jobs`` is no part of that: it is live).

    What is in it is never changed once it is returned: ``owner`` may be the very object of the plan before, as it was.
    """

    queues: tuple[tuple[RequestId, ...], ...] = ()  # in the order in which they are tried; a request is in one, once
    owner: Mapping[RegionId, int] = field(default_factory=dict)  # region -> the queue that its devices try first
    mode: Mode = Mode.ORDERED
    why: Callable[[], Reasons] = field(default=_no_reasons, compare=False, repr=False)  # pure; called at most once
    tiers: Mapping[RequestId, int] = field(
        default_factory=dict
    )  # decided by this plan: a tier, or ANY_TIER, also to lift
    or_faster: bool = False  # whoever is restricted to a tier takes devices of faster ones, too
    targets: Mapping[RequestId, int] = field(default_factory=dict)  # places, K to C; absent: C
    review_at: float | None = None  # engine time, > now: when time alone could change this plan's mind at the earliest

    @cached_property
    def reasons(self) -> Mapping[JobId, str]:
        """Why jobs wait whose requests lack more than devices, in the policy's words. Made when first asked for."""
        return dict(self.why())


class Policy(Protocol):
    """The rule that decides who gets devices. Made once per engine; ``plan`` is a pure function of the view."""

    name: str

    def plan(self, view: View) -> Plan: ...


def flaw(plan: object, view: View, before: Plan) -> str:
    """Say why what a policy returned cannot be followed; empty: it can. What it decides of tiers is checked apart.

    ``before``: the plan before, which could be.
    """
    if not isinstance(plan, Plan):
        return f"it is of type {type(plan).__name__}, not a Plan"
    if not (isinstance(plan.queues, tuple) and set(map(type, plan.queues)) <= {tuple}):
        return "its queues are not a tuple of tuples"
    if not isinstance(plan.mode, Mode):
        return f"its mode is {plan.mode!r}; it is Mode.ORDERED or Mode.UNIFORM"
    for name, values in (("owner", plan.owner), ("tiers", plan.tiers), ("targets", plan.targets)):
        if not isinstance(values, Mapping):
            return f"{name} is of type {type(values).__name__}, not a mapping"
    for name, values in (("tiers", plan.tiers), ("targets", plan.targets)):
        if values and not _whole(values.values()):
            return f"{name} has a value that is not a whole number"
    if not callable(plan.why):
        return f"why is of type {type(plan.why).__name__}, not a function"
    return _flaw_of_owner(plan, before) or _flaw_of_queues(plan, before) or _flaw_of_review(plan, view)


def _flaw_of_owner(plan: Plan, before: Plan) -> str:
    if not plan.owner or (plan.owner is before.owner and len(plan.queues) == len(before.queues)):
        return ""
    owners, count = set(plan.owner.values()), len(plan.queues)
    if not _whole(owners) or not 0 <= min(owners) <= max(owners) < count:
        return f"owner names a queue that is not a whole number from 0 to {count - 1}"
    return ""


def _flaw_of_queues(plan: Plan, before: Plan) -> str:
    queues = plan.queues
    if len(queues) == len(before.queues) and all(map(is_, queues, before.queues)):
        return ""
    try:
        ids: set[RequestId] = set().union(*queues)
    except TypeError:
        return "its queues hold something that is no request id"
    return "a request is in its queues twice" if len(ids) < sum(map(len, queues)) else ""


def _flaw_of_review(plan: Plan, view: View) -> str:
    at = plan.review_at
    if at is None or (isinstance(at, Real) and at > view.now):
        return ""
    return f"review_at is {at!r}; it is None, or a time after {view.now}"


def _whole(values: Iterable[object]) -> bool:
    """Whether all are whole numbers, Python's or NumPy's."""
    return all(issubclass(kind, Integral) for kind in set(map(type, values)))
