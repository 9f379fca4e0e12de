"""The manifest of what was decided, and the folder beside it."""

from contextlib import closing
from pathlib import Path

from job_driver.counting import AttemptNo, Decision, Outcome, Status
from job_driver.spool import MANIFEST, Response, ResponseHeader, Spool


def test_a_folder_in_which_another_version_has_begun_is_in_use(tmp_path: Path) -> None:
    with closing(Spool(tmp_path)) as spool:
        assert not spool.begun()
        with open(tmp_path / MANIFEST, "a") as file:
            file.write('{"kind": "response", "round": 1, "attempt": 1, "lease": 7, "sha256": "00"}\n')
        assert spool.begun()


def decided(no: AttemptNo, lease: int, of: AttemptNo) -> Response:
    """A response that counts in ``no``, to a lease of ``of``, granted by the coordinator 17."""
    decision = Decision(no, lease, Outcome.COUNTED, bytes(32))
    return Response(decision, ResponseHeader(of, lease, "d1", 0, bytes(32), 1.0), incarnation=17, at=1.0)


def test_the_coordinator_of_an_attempt_is_known_though_only_leases_of_the_round_before_were_decided_in_it(
    tmp_path: Path,
) -> None:
    """Else a driver that starts again takes the attempt's leases for another coordinator's (venn chaos sim, 120)."""
    first, second = AttemptNo(1, 1), AttemptNo(2, 1)
    with closing(Spool(tmp_path)) as spool:
        spool.partial(first, 7).touch()
        spool.keep(decided(second, 7, of=first))
        assert [log.incarnation for log in spool.attempts(after_round=1)] == [17]


def test_the_coordinator_of_an_attempt_is_known_by_its_end_alone(tmp_path: Path) -> None:
    with closing(Spool(tmp_path)) as spool:
        spool.end(AttemptNo(1, 1), Status.ABORTED, [], 17, 1.0)
        assert [log.incarnation for log in spool.attempts(after_round=0)] == [17]
