"""The account of a run in chaos: what was done to it, what must hold nevertheless, and how soon it went on."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from coordinator.engine import effects as done
from testbed.report.audit import LEAKED
from testbed.report.granted import INELIGIBLE
from testbed.report.record import RunRecord
from testbed.report.terminal import text_table
from testbed.report.words import seconds
from testbed.runfolder.journal import Journal
from testbed.runfolder.jsonlines import Row, number, text
from testbed.runfolder.summary import Summary
from testbed.world.chaos import LOSSES, Chaos
from testbed.world.timeline import Verb
from venn.wire.requirements import PROGRAMS, Whom

NAMED = ("RESPONSE_LOST", "COUNTED_TWICE", LEAKED, INELIGIBLE)  # findings that have a row of their own


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the account. ``least`` is None: it must be 0."""

    key: str
    what: str
    got: int
    least: int | None = None

    @property
    def held(self) -> bool:
        return self.got == 0 if self.least is None else self.got >= self.least

    @property
    def asked(self) -> str:
        return "0" if self.least is None else f"at least {self.least}"


@dataclass(frozen=True, slots=True)
class Account:
    """What a run in chaos came to."""

    figures: tuple[Figure, ...]
    first_lease_s: tuple[float, ...]  # from each kill of the coordinator to the first lease that it granted again

    @property
    def held(self) -> bool:
        """Whether the chaos was as asked, and nothing was broken."""
        return all(each.held for each in self.figures)

    def to_json(self) -> dict[str, object]:
        """The account as one object: each figure with what was asked, and the times with their unit."""
        rows = {each.key: asdict(each) | {"held": each.held} for each in self.figures}
        told = {key: {name: row[name] for name in ("got", "least", "held")} for key, row in rows.items()}
        times = self.first_lease_s
        return {
            "held": self.held,
            "figures": told,
            "first_lease_after_kill_s": [round(each, 3) for each in times],
            "first_lease_after_kill_median_s": round(statistics.median(times), 3) if times else None,
            "first_lease_after_kill_max_s": round(max(times), 3) if times else None,
        }


def account(record: RunRecord, summary: Summary, asked: Chaos) -> Account:
    """Hold a run against the chaos that was asked for, and against what must hold in any run."""
    rows = [row for row in record.churn if not row.get("missed")]
    kills = [row for row in rows if row.get("verb") == Verb.CRASH]
    coordinator = [row for row in kills if text(row, "target") == Whom.COORDINATOR]
    findings = summary.audit.findings
    kinds = [each.kind for each in findings]
    figures = [
        Figure("coordinator_kills", "coordinator kills", len(coordinator), asked.coordinator_kills),
        Figure("driver_kills", "driver kills", _of(kills, Whom.DRIVER), asked.driver_kills),
        Figure("device_losses", "device losses", _losses(rows), asked.device_losses),
        Figure("unfinished_jobs", "unfinished jobs", summary.unfinished_jobs),
        Figure("responses_lost", "acknowledged responses lost", summary.responses_lost),
        Figure("responses_counted_twice", "responses counted twice", summary.responses_counted_twice),
        Figure("leases_leaked", "leases leaked", kinds.count(LEAKED)),
        Figure("ineligible_leases", "ineligible leases", kinds.count(INELIGIBLE)),
        Figure("other_findings", "other findings of the auditor", sum(kind not in NAMED for kind in kinds)),
    ]
    if asked.broker_kills:
        figures.insert(2, Figure("broker_kills", "broker kills", _of(kills, Whom.BROKER), asked.broker_kills))
    return Account(tuple(figures), tuple(_first_leases(record.journal, coordinator)))


def _of(kills: Sequence[Row], whom: Whom) -> int:
    return sum(text(row, "target").partition(" ")[0] == whom for row in kills)


def _losses(rows: Sequence[Row]) -> int:
    return sum(row.get("verb") in LOSSES and text(row, "target").partition(" ")[0] not in PROGRAMS for row in rows)


def _first_leases(journal: Journal, kills: Sequence[Row]) -> Iterator[float]:
    """Seconds from each kill to the next lease, down time included; none for a kill after which there was no lease."""
    granted = [entry.t for entry in journal.entries if any(isinstance(each, done.OfferLease) for each in entry.effects)]
    restarts = journal.restarts
    for row in kills:
        at = journal.engine_time(number(row, "at"))
        again = next((when for when in restarts if when >= at), None)
        first = None if again is None else next((when for when in granted if when >= again), None)
        if first is not None:
            yield first - at


def account_table(found: Account) -> RenderableType:
    """The account for people: a row per figure, and how soon there were leases again."""
    verdicts = {True: Text("ok", style="green"), False: Text("NOT HELD", style="bold red")}
    rows = [(f"  {each.what}", str(each.got), each.asked, verdicts[each.held]) for each in found.figures]
    table = text_table(("CHAOS", "COUNTED", "ASKED", ""), rows, right=("COUNTED", "ASKED"))
    times = found.first_lease_s
    if not times:
        return table
    told = f"{seconds(statistics.median(times))} s in the median, {seconds(max(times))} s at most"
    return Group(table, Text(f"  first new lease after a kill of the coordinator: {told}"))
