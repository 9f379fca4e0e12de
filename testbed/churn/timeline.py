"""A timeline as it is written, and as it is carried out: entries, and the atomic actions they come to."""

from dataclasses import dataclass
from enum import StrEnum

from testbed.churn.link_change import LinkChange
from venn.wire.notation import Rate, Selector, format_duration


class Verb(StrEnum):
    """What an entry does to what it selects."""

    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"
    DISCONNECT = "disconnect"
    RECONNECT = "reconnect"
    SUSPEND = "suspend"
    PARTITION = "partition"
    LIMIT = "limit"
    FLAP = "flap"
    ON_OFF = "on-off"
    DIURNAL = "diurnal"
    CHURN = "churn"


GENERATORS = (Verb.FLAP, Verb.ON_OFF, Verb.DIURNAL, Verb.CHURN)  # each comes to many actions, over a time
ENDLESS = (Verb.LEAVE, Verb.CRASH, Verb.DISCONNECT, Verb.PARTITION, Verb.LIMIT)  # states that need no ``for``
MOMENTS = (Verb.JOIN, Verb.RECONNECT)  # no states: they end one


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. ``to_s`` is None: at ``from_s``; else spread from ``from_s`` to ``to_s``. Seconds before the scale."""

    verb: Verb
    of: Selector | Rate  # a rate with Verb.CHURN, and with no other
    from_s: float
    to_s: float | None = None
    for_s: float | None = None  # how long what it does lasts
    change: LinkChange | None = None  # exactly with Verb.LIMIT

    @property
    def end_s(self) -> float:
        """When the last of it is over, as far as it says so."""
        last = self.from_s if self.to_s is None else self.to_s
        inside = self.verb in GENERATORS and self.verb is not Verb.CHURN
        return last if inside else last + (self.for_s or 0.0)

    def to_json(self) -> dict[str, str]:
        """As it stands in a scenario."""
        if self.to_s is None:
            when = {"at": format_duration(self.from_s)}
        else:
            when = {"from": format_duration(self.from_s), "to": format_duration(self.to_s)}
        lasting = {} if self.for_s is None else {"for": format_duration(self.for_s)}
        changed = {} if self.change is None else self.change.to_json()
        return {**when, self.verb.value: str(self.of), **changed, **lasting}

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}: {value}" for key, value in self.to_json().items()) + "}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that is done to one device or program; seconds of the run, with the time scale in them."""

    at_s: float
    verb: Verb  # none of GENERATORS
    target: str  # a device; or "coordinator", "driver JOB"
    entry: int  # the number of the entry it comes from, from 0
    until_s: float | None = None  # when it is over by itself; None: it is a moment, or nothing ends it
    change: LinkChange | None = None  # exactly with Verb.LIMIT

    def to_json(self) -> dict[str, object]:
        changed = {} if self.change is None else {"link": self.change.to_json()}
        return {
            "at_s": round(self.at_s, 6),
            "verb": self.verb.value,
            "target": self.target,
            "until_s": None if self.until_s is None else round(self.until_s, 6),
            "entry": self.entry,
            **changed,
        }
