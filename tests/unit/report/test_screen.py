import pytest
from rich.console import Console

from testbed.report.screen import Frame, Panel, movement, plain_lines, render
from tests.unit.report.snapshots import snapshot
from venn.v1.admin_pb2 import DeviceStatus, RegionStatus, Snapshot
from venn.v1.job_pb2 import JobPhase


def drawn(width: int, height: int = 40, frame: Frame | None = None, shown: Snapshot | None = None) -> list[str]:
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(render(shown or snapshot(), width, height, 47.0, frame or Frame()), crop=False)
    return capture.get().rstrip("\n").split("\n")


@pytest.mark.parametrize("panel", list(Panel))
@pytest.mark.parametrize("height", [12, 16, 24, 40])
@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 120, 200])
def test_it_never_scrolls_and_never_overflows(width: int, height: int, panel: Panel) -> None:
    devices = [DeviceStatus(device=f"budget-{index:02d}", state="waiting") for index in range(99)]
    lines = drawn(width, height, Frame(panel=panel, devices=devices, still_s=12.0))
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith(" d devices")


def test_at_100_columns_it_is_the_screen_of_the_product() -> None:
    lines = drawn(100, 26, Frame(backend="process", limit_s=240))
    headline = "three-jobs policy venn seed 7 backend process 00:47 / 04:00 at most"
    assert " ".join(lines[0].split()) == headline
    assert lines[2].split() == ["JOB", "REQUIREMENT", "STATE", "ROUND", "LEASED", "RESPONSES", "ABORTS", "ACCURACY"]
    assert " ".join(lines[4].split()) == "tablet-pen roomy filling 8/15 ██████▎ 10/16 2 of 13 1 0.871 ▁▃▅▇▇██"
    assert (
        " LEASES  412 = 331 responses + 19 stragglers + 38 lost + 2 failed + 4 expired + 0 revoked + 18 live" in lines
    )
    assert " any roomy powerful       24      2.0/s        0  label-count > tablet-pen > handwriting" in lines
    assert any(line.startswith(" label-count waits: 9 places open") for line in lines)


def test_below_80_columns_the_sparkline_goes_first_then_the_host() -> None:
    def shows(width: int) -> tuple[bool, bool]:
        lines = "\n".join(drawn(width))
        return "▁" in lines, "HOST" in lines

    assert (shows(80), shows(79), shows(63)) == ((True, True), (False, True), (False, False))


def test_sums_are_never_cut() -> None:
    for width in (40, 60, 80, 120):
        lines = drawn(width)
        first = next(index for index, line in enumerate(lines) if "LEASES" in line)
        said = " ".join(" ".join(lines[first : first + 4]).split())
        assert "412 = 331 responses + 19 stragglers + 38 lost + 2 failed + 4 expired + 0 revoked + 18 live" in said


def test_what_devices_say_has_no_control_characters() -> None:
    assert not any("\x1b" in line for line in drawn(120, frame=Frame(panel=Panel.LOG)))


@pytest.mark.parametrize("width", [60, 110, 120])
def test_what_is_cut_ends_in_a_sign(width: int) -> None:
    shown = snapshot()
    shown.name = "a-very-long-name-" * 9
    shown.log[0].text = "said at length " * 12
    shown.regions[0].groups[:] = ["a-requirement-of-many-words"] * 9
    shown.regions[0].order[:] = ["a-job-with-a-long-name"] * 9
    lines = drawn(width, frame=Frame(backend="process", limit_s=240), shown=shown)
    assert "… " in lines[0]
    assert next(line for line in lines if "said at length" in line).endswith("…")
    assert next(line for line in lines if "a-job-with" in line or "a-requirement" in line).endswith("…")
    assert all(len(line) <= width for line in lines)


def test_regions_beyond_six_fold() -> None:
    shown = snapshot()
    del shown.regions[:]
    shown.regions.extend(RegionStatus(groups=[f"g{index}"], devices=1) for index in range(15))
    lines = drawn(100, shown=shown)
    assert " and 9 more" in lines
    assert sum(line.startswith(" g") for line in lines) == 6


def test_when_nothing_moves_it_says_what_is_waited_for() -> None:
    lines = drawn(120, frame=Frame(still_s=12.0))
    assert any(line.startswith(" nothing has moved for 12 s; waiting for label-count: 9 places open") for line in lines)
    assert not any("nothing has moved" in line for line in drawn(120, frame=Frame(still_s=9.9)))


def test_a_finished_job_holds_no_places() -> None:
    shown = snapshot()
    shown.jobs[0].phase = JobPhase.JOB_PHASE_FINISHED
    line = next(line for line in drawn(100, shown=shown) if "handwriting" in line)
    assert "finished" in line
    assert "20/20" not in line


def test_plain_lines_are_one_per_job() -> None:
    assert plain_lines(snapshot()) == [
        "00:47 handwriting collecting round 10/18 leased 20/20 responses 13 of 16 aborts 0 accuracy 0.889",
        "00:47 tablet-pen filling round 8/15 leased 10/16 responses 2 of 13 aborts 1 accuracy 0.871",
        "00:47 label-count filling round 6/8 leased 3/12 responses 0 of 8 aborts 0",
    ]
    assert plain_lines(Snapshot()) == ["00:00 no job has arrived"]


def test_movement_sees_a_lease_and_not_the_clock() -> None:
    before, after = snapshot(), snapshot()
    after.elapsed.seconds += 5
    assert movement(before) == movement(after)
    after.leases.granted += 1
    assert movement(before) != movement(after)
