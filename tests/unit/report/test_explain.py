from pathlib import Path

import pytest

from testbed.report.explain import explain
from testbed.report.story import Story, tell
from testbed.runfolder.journal import read_journal
from venn.wire.errors import UsageError


@pytest.fixture
def story(folder: Path) -> Story:
    return tell(read_journal(folder / "events.jsonl"))


def test_a_job_by_its_name_or_its_key(story: Story) -> None:
    found = explain(story, "narrow")
    assert found == explain(story, "me/narrow/r1")
    assert found.state == "finished"
    assert found.reasons[:2] == (
        "3.0 s of its delay: present, held back (cooling, at a limit, of another tier, or counted in the round)",
        "1.0 s of its delay: given to wide by venn",
    )
    assert found.reasons[3] == "2 devices of 3 could serve it"
    assert found.reasons[2].startswith("the rule of venn: Intersection Resource Scheduling: ")
    kinds = [line.kind for line in found.story]
    assert kinds == ["ARRIVED", "OPEN", "FILLED", "ABORT", "OPEN", "FILLED", "CLOSED", "ENDED"]
    assert [line.at_s for line in found.story] == sorted(line.at_s for line in found.story)


def test_a_device(story: Story) -> None:
    found = explain(story, "c")
    assert found.state == "gone"
    assert found.reasons == ("it could serve wide, narrow", "1 session, 1 lease = 1 lost")
    assert [line.text for line in found.story if line.kind == "LOST"] == ["connection_ended in mid-task"]
    assert explain(story, "b").state == "in session"


def test_what_the_run_does_not_know(story: Story) -> None:
    with pytest.raises(UsageError, match="did you mean narrow"):
        explain(story, "narow")
