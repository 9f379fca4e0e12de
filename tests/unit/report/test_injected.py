"""What was injected beside what was observed."""

from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import EngineSettings, SessionEnd
from testbed.report.history import History, SessionHistory
from testbed.report.summary import injected
from testbed.report.words import observed_words
from testbed.runfolder.journal import Journal
from testbed.runfolder.summary import Injected

UNIX_S = 1_700_000_000.0


def history(*sessions: tuple[str, float, float | None, SessionEnd | None]) -> History:
    made = History(Journal("", 1, 0, EngineSettings(seed=1, policy="fifo"), "", (), ""))
    for number, (device, start, end, why) in enumerate(sessions, start=1):
        made.sessions[SessionSeq(number)] = SessionHistory(SessionSeq(number), DeviceId(device), start, end, why)
    return made


def row(verb: str, target: str, at: float, until: float | None = None) -> dict[str, object]:
    return {"verb": verb, "target": target, "at_s": at, "at": UNIX_S + at, "until_s": until}


def seen(rows: list[dict[str, object]], about: History) -> tuple[Injected, ...]:
    return injected(rows, about, started_unix_s=UNIX_S, liveness_s=10.0)


def test_each_cause_has_its_reason() -> None:
    about = history(
        ("a", 0, 5.0, SessionEnd.GOODBYE_SESSION_OVER),
        ("b", 0, 5.25, SessionEnd.CONNECTION_ENDED),
        ("c", 0, 15.5, SessionEnd.SILENT),
        ("d", 0, 4.0, SessionEnd.GOODBYE_TOLD_TO),
        ("e", 0, None, None),
    )
    rows = [row("leave", "a", 5), row("crash", "b", 5), row("suspend", "c", 5, 40), row("crash", "d", 5)]
    assert seen([*rows, row("suspend", "e", 5, 8)], about) == (
        Injected("leave", 1, {"goodbye_session_over": 1}, 0.0),
        Injected("crash", 2, {"connection_ended": 1, "not_connected": 1}, 0.25),
        Injected("suspend", 2, {"silent": 1, "nothing": 1}, 10.5),
    )


def test_an_end_long_after_it_is_of_another_cause() -> None:
    about = history(("a", 0, 30.0, SessionEnd.GOODBYE_SESSION_OVER))
    assert seen([row("suspend", "a", 5, 9)], about)[0].observed == {"nothing": 1}


def test_who_joins_checks_in() -> None:
    about = history(("a", 5.5, None, None))
    rows = [row("join", "a", 5), row("join", "b", 5)]
    assert seen(rows, about) == (Injected("join", 2, {"checked_in": 1, "nothing": 1}, 0.5),)


def test_a_driver_that_is_killed_is_lost() -> None:
    about = history()
    about.drivers_lost.append((6.0, JobId("testbed/wide/run")))
    rows = [row("crash", "driver wide", 5), row("suspend", "coordinator", 7, 8)]
    assert [each.observed for each in seen(rows, about)] == [{"driver_lost": 1}, {"nothing": 1}]


def test_in_words() -> None:
    words = observed_words(Injected("crash", 5, {"connection_ended": 4, "not_connected": 1}, 0.21))
    assert words == "4 connection ended, 1 not connected; within 0.2 s"
    assert observed_words(Injected("join", 1, {"nothing": 1}, None)) == "1 nothing"
