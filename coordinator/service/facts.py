"""Facts: what the services know beside the engine and still have to know after a restart.

A fact is recorded in the journal between the events, in the order in which it was noted. It has a *key*, and the newest
fact of a key stands. One that is ``gone`` says that nothing stands any more of its key, nor of the keys that begin with
it.

A fact never holds a secret: keys of tickets are derived (``coordinator.service.secret``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast, get_args

from coordinator.engine.ids import JobId
from coordinator.engine.record import read_record, text_of

Key = tuple[str, ...]

ROUNDS_KEPT = 64  # of a job, with the metrics that its driver reported


@dataclass(frozen=True, slots=True)
class DriverAt:
    """A driver submitted its job: where it says it is, and its incarnation."""

    gone: ClassVar[bool] = False
    job: JobId
    address: str  # literal host:port
    incarnation: int

    @property
    def key(self) -> Key:
        return ("job", self.job, "driver")


@dataclass(frozen=True, slots=True)
class JobOwned:
    """The job belongs to the holder of this key."""

    gone: ClassVar[bool] = False
    job: JobId
    owner: str  # id of the key: 64 hexadecimal digits

    @property
    def key(self) -> Key:
        return ("job", self.job, "owner")


@dataclass(frozen=True, slots=True)
class DriverCertified:
    """The driver of the job has this certificate."""

    gone: ClassVar[bool] = False
    job: JobId
    certificate: str  # DER, in hexadecimal digits; empty: none

    @property
    def key(self) -> Key:
        return ("job", self.job, "certificate")


@dataclass(frozen=True, slots=True)
class IdentityKnown:
    """A key has joined, and is let in unless it was revoked."""

    gone: ClassVar[bool] = False
    id: str  # of the key: 64 hexadecimal digits
    public: str  # the key (DER), in hexadecimal digits
    role: str
    name: str
    joined_ms: int
    revoked_ms: int  # 0: it is let in
    replaces: str  # id of the key that ends when this one is first used; empty: none

    @property
    def key(self) -> Key:
        return ("identity", self.id)


@dataclass(frozen=True, slots=True)
class TokenMade:
    """A join token lets keys in."""

    gone: ClassVar[bool] = False
    hash: str  # SHA-256 of the token, in hexadecimal digits
    role: str
    uses: int
    ends_ms: int
    used_by: tuple[str, ...]  # ids of keys

    @property
    def key(self) -> Key:
        return ("token", self.hash)


@dataclass(frozen=True, slots=True)
class TokenEnded:
    """A join token is good no more."""

    gone: ClassVar[bool] = True
    hash: str

    @property
    def key(self) -> Key:
        return ("token", self.hash)


@dataclass(frozen=True, slots=True)
class DriverVerified:
    """The driver at this address holds the job's key; offers name it."""

    gone: ClassVar[bool] = False
    job: JobId
    address: str  # literal host:port
    moved: int  # the newest lease whose offer names an earlier address; 0: none

    @property
    def key(self) -> Key:
        return ("job", self.job, "verified")


@dataclass(frozen=True, slots=True)
class TaskOpened:
    """An attempt was accepted, with this task: its offers are built from it."""

    gone: ClassVar[bool] = False
    job: JobId
    round: int
    attempt: int
    rounds_left: int  # 0: unknown
    task: str  # a venn.v1.Task, serialised, in base64

    @property
    def key(self) -> Key:
        return ("job", self.job, "task")


@dataclass(frozen=True, slots=True)
class TaskDropped:
    """The job needs no task any more: it has ended."""

    gone: ClassVar[bool] = True
    job: JobId

    @property
    def key(self) -> Key:
        return ("job", self.job, "task")


@dataclass(frozen=True, slots=True)
class RoundReported:
    """The driver reported the metrics of a closed round."""

    gone: ClassVar[bool] = False
    job: JobId
    round: int
    metrics: Mapping[str, float]

    @property
    def key(self) -> Key:
        return ("job", self.job, "round", str(self.round % ROUNDS_KEPT))


@dataclass(frozen=True, slots=True)
class JobForgotten:
    """The job ended long ago, and the engine has forgotten it."""

    gone: ClassVar[bool] = True
    job: JobId

    @property
    def key(self) -> Key:
        return ("job", self.job)


Fact = (
    DriverAt
    | DriverCertified
    | JobOwned
    | IdentityKnown
    | TokenMade
    | TokenEnded
    | DriverVerified
    | TaskOpened
    | TaskDropped
    | RoundReported
    | JobForgotten
)
F = TypeVar("F", bound=Fact)

KINDS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Fact)}


def fact_from_json(record: object) -> Fact:
    """Read a fact from its JSON. Raises RecordError."""
    return cast(Fact, read_record(record, KINDS))


def facts_text(facts: Iterable[Fact]) -> str:
    """Write facts as a JSON list."""
    return f"[{','.join(map(text_of, facts))}]"


class Facts:
    """The facts that stand."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._standing: dict[Key, Fact] = {}
        for fact in facts:
            self.note(fact)

    def note(self, fact: Fact) -> None:
        """Let a fact stand in place of the one of its key; or let those go that begin with its key."""
        if not fact.gone:
            self._standing[fact.key] = fact
            return
        length = len(fact.key)
        for key in [key for key in self._standing if key[:length] == fact.key]:
            del self._standing[key]

    def of(self, kind: type[F]) -> Iterator[F]:
        """The standing facts of one kind, by when their keys were first noted."""
        return (fact for fact in list(self._standing.values()) if isinstance(fact, kind))

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._standing.values())

    def __len__(self) -> int:
        return len(self._standing)
