"""The page, its figures and its summary, from a folder to files."""

import json
import re
from pathlib import Path

from testbed.report.result import build_report
from tests.unit.report.contended import ContendedRun
from tests.unit.report.pages import check_page
from tests.unit.report.world import World

EVIL = "ValueError: <script>alert('x')</script>\x1b[31m\x07 & more"


def test_a_run_becomes_a_page_that_opens_offline(tmp_path: Path) -> None:
    world = ContendedRun(devices=30).run()
    world.about["command"] = ["venn", "run", "three-jobs.yaml"]
    world.scenario = "version: 1\nname: <by-hand>\n"
    folder = world.write(tmp_path)
    summary = build_report(folder)
    page = (folder / "report.html").read_text()
    check_page(page)
    assert page.count("<svg") == 9
    assert page.index('class="scroll narrow"') < page.index('id="result"'), "the first figure fits a phone"
    assert "&lt;by-hand&gt;" in page
    assert "venn run three-jobs.yaml" in page
    assert re.search(r"events of the coordinator\.\s+<span class", page)
    assert json.loads((folder / "summary.json").read_text())["leases"]["granted"] == summary.leases.granted
    for name in ("jct", "rounds", "learning", "venn", "churn", "waits", "host"):
        for kind in ("svg", "pdf", "csv"):
            assert (folder / "figures" / f"{name}.{kind}").stat().st_size > 20
    marks = [figure.count("<title>") for figure in page.split("<figure")[1:]]
    assert all(marks), "every figure says something to a pointer"


def test_every_attempt_says_what_it_was_when_pointed_at(world: World, tmp_path: Path) -> None:
    folder = world.write(tmp_path)
    build_report(folder)
    titles = re.findall(r"<title>([^<]+)</title>", (folder / "figures" / "rounds.svg").read_text())
    assert len(titles) == 4
    assert "wide round 1, attempt 1: aborted (deadline)" in titles[0]
    assert "2 leases = 1 counted + 1 failed" in titles[0]


def test_a_journal_that_is_cut_is_named_with_its_time(tmp_path: Path) -> None:
    folder = ContendedRun(devices=30).run().write(tmp_path, digest=None)
    summary = build_report(folder)
    page = (folder / "report.html").read_text()
    assert summary.cut_at_s is not None
    assert f"its journal is cut at {summary.cut_at_s:.1f} s. The figures cover the time until then." in page


def test_what_devices_say_is_escaped(tmp_path: Path) -> None:
    from tests.unit.report.conftest import small

    world = small()
    world.check_in(40.0, "a")
    world.fail(42.0, world.lease(41.0, "a", world.open(40.5, "narrow", 2)), EVIL)
    folder = world.write(tmp_path)
    build_report(folder)
    page = (folder / "report.html").read_text()
    assert page.count("<script>") == 1
    assert "alert('x')" not in page
    assert "&lt;script&gt;" in page
    assert not {"\x1b", "\x07"} & set(page)


def test_a_run_in_which_nothing_happened_has_a_page_too(tmp_path: Path) -> None:
    folder = World().write(tmp_path, digest=None)
    summary = build_report(folder)
    assert summary.jobs == ()
    page = (folder / "report.html").read_text()
    check_page(page)
    assert "No job arrived." in page


def test_the_same_run_gives_the_same_bytes(world: World, tmp_path: Path) -> None:
    pages = []
    for name in ("one", "two"):
        folder = world.write(tmp_path / name)
        build_report(folder)
        pages.append((folder / "report.html").read_bytes())
    assert pages[0] == pages[1]
