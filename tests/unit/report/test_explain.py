from pathlib import Path

import pytest

from testbed.report.explain import explain
from testbed.report.history import History, read_history
from testbed.runfolder.journal import read_journal
from venn.wire.errors import UsageError


@pytest.fixture
def history(folder: Path) -> History:
    return read_history(read_journal(folder / "events.jsonl"))


def test_a_job_by_its_name_or_its_key(history: History) -> None:
    found = explain(history, "narrow")
    assert found == explain(history, "me/narrow/r1")
    assert found.state == "finished"
    assert found.reasons[:2] == (
        "3.0 s of its delay: present, held back (cooling, at a limit, of another tier, or counted in the round)",
        "1.0 s of its delay: given to wide by venn",
    )
    assert found.reasons[3] == "2 devices of 3 could serve it"
    assert found.reasons[2].startswith("the rule of venn: Intersection Resource Scheduling: ")
    kinds = [line.kind for line in found.history]
    assert kinds == ["ARRIVED", "OPEN", "FILLED", "ABORT", "OPEN", "FILLED", "CLOSED", "ENDED"]
    assert [line.at_s for line in found.history] == sorted(line.at_s for line in found.history)


def test_a_device(history: History) -> None:
    found = explain(history, "c")
    assert found.state == "gone"
    assert found.reasons == ("it could serve wide, narrow", "1 session, 1 lease = 1 lost")
    assert [line.text for line in found.history if line.kind == "LOST"] == [
        "connection ended without goodbye, in mid-task"
    ]
    assert explain(history, "b").state == "in session"


def test_what_the_run_does_not_know(history: History) -> None:
    with pytest.raises(UsageError, match="did you mean narrow"):
        explain(history, "narow")
    with pytest.raises(UsageError) as caught:
        explain(history, "nobody")
    assert caught.value.fix == "known are the jobs wide, narrow and the devices a, b, c"
