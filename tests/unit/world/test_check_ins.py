"""From a population to the simulator's check-ins: kinds, times of tasks, links, blocks."""

import pickle
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import AllDevices, Capabilities, Requirement
from testbed.scenario.requirements import requirement_of
from testbed.world.capabilities import phones
from testbed.world.columns import CHUNK, Columns, GeneratedPhones, Texts, chunks
from testbed.world.population import ROWS, KindTable, PopulationSpec, atoms, check_ins
from venn.wire.errors import UsageError

COUNT = 2000
SPEC = PopulationSpec(count=COUNT, replay_s=86_400.0, slow="inference")
FOUR = [
    requirement_of(text)
    for text in (
        "fp16 >= 10 and cpu >= 1 and os >= 6",
        "fp16 >= 10 and cpu >= 7 and os >= 6",
        "fp16 >= 1000 and cpu >= 1 and os >= 6",
        "fp16 >= 1000 and cpu >= 7 and os >= 6",
    )
]
LISTED = Columns(
    4,
    {"cpu": np.array([1.0, 8.0, np.nan, 8.0])},
    {"site": Texts(np.array([0, 1, 0, -1], np.int32), ("lab", "home"))},
)


def meets(requirement: Requirement, capabilities: Capabilities) -> bool:
    return requirement.matches(DeviceId(""), capabilities)


def test_a_kind_answers_as_each_of_its_devices_does() -> None:
    population = check_ins(SPEC, seed=1, requirements=FOUR)
    made = GeneratedPhones(1).columns(0, COUNT)
    block = next(population.trace())
    for device, kind in zip(block.device[:500].tolist(), block.kind[:500].tolist(), strict=True):
        for requirement in FOUR:
            assert meets(requirement, population.kinds[kind]) == meets(requirement, made.row(device))


def test_there_is_a_kind_for_each_combination_of_answers() -> None:
    table = KindTable(FOUR)
    made = GeneratedPhones(1).columns(0, COUNT)
    table.kinds(made)
    seen = {tuple(bool(made.answers(atom)[row]) for atom in atoms(FOUR)) for row in range(COUNT)}
    assert len(table.capabilities) == len(seen)


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("cpu >= 7", [False, True, False, True]),
        ("cpu != 8", [True, False, False, False]),  # what is not reported meets no comparison
        ("site = lab", [True, False, True, False]),
        ("site != lab", [False, True, False, False]),
        ("site != nowhere", [True, True, True, False]),
        ("memory > 1", [False] * 4),
        ("room != nowhere", [False] * 4),
    ],
)
def test_columns_answer_as_the_engine_does(text: str, met: list[bool]) -> None:
    (atom,) = atoms([requirement_of(text)])
    assert LISTED.answers(atom).tolist() == met
    assert [meets(atom, LISTED.row(row)) for row in range(4)] == met


def test_kinds_are_numbered_by_their_first_device_however_many_questions_there_are() -> None:
    many = [requirement_of(f"cpu >= {bound}") for bound in range(100)]
    table = KindTable([*many, requirement_of("not site = home")])
    assert table.kinds(LISTED).tolist() == [0, 1, 2, 3]  # 1 and 3 differ by site alone
    assert table.kinds(LISTED.take(np.array([3, 0]))).tolist() == [3, 0]
    assert len(table.capabilities) == 4
    assert table.capabilities[2] == Capabilities({}, {"site": frozenset(["lab"])})


def test_without_questions_there_is_one_kind() -> None:
    assert len(check_ins(SPEC, seed=1, requirements=[AllDevices()]).kinds) == 1


def test_time_is_proportional_to_the_capability_over_its_mean() -> None:
    block = next(check_ins(SPEC, seed=1, requirements=[]).trace())
    inference = phones(COUNT, 1).inference
    np.testing.assert_allclose(block.slow, inference[block.device] / inference.mean())


def test_without_one_it_is_one_over_cpu() -> None:
    made = phones(COUNT, 1)
    block = next(check_ins(replace(SPEC, slow=None), seed=1, requirements=[]).trace())
    np.testing.assert_array_equal(block.slow, 1 / made.cpu[block.device])
    np.testing.assert_array_equal(block.byte_s, 8 / made.link[block.device])


def test_so_many_sessions_crash() -> None:
    population = check_ins(replace(SPEC, crash=0.3), seed=1, requirements=[])
    one, other = (next(population.trace()).crash for _ in range(2))
    assert abs(one.mean() - 0.3) < 0.02
    np.testing.assert_array_equal(one, other)
    assert not next(check_ins(SPEC, seed=1, requirements=[]).trace()).crash.any()


def test_without_replay_generated_sessions_go_on() -> None:
    population = check_ins(replace(SPEC, replay_s=None, count=40), seed=1, requirements=[])
    blocks = list(islice(population.trace(), 3))
    starts = np.concatenate([block.start_s for block in blocks])
    assert (np.diff(starts) >= 0).all()
    assert max(len(block) for block in blocks) <= ROWS


def test_devices_do_not_depend_on_how_they_are_cut_into_chunks() -> None:
    parts = [chunk.numbers["cpu"] for chunk in chunks(GeneratedPhones(5), CHUNK + 10)]
    assert [len(part) for part in parts] == [CHUNK, 10]
    np.testing.assert_array_equal(parts[1], GeneratedPhones(5).columns(CHUNK, 10).numbers["cpu"])


def test_a_requirement_that_no_device_meets_is_refused() -> None:
    with pytest.raises(UsageError, match=r"none of the 2000 devices meets cpu >= 1000"):
        check_ins(SPEC, seed=1, requirements=[requirement_of("cpu >= 1000")])


def test_a_capability_that_nobody_reports_is_no_measure_of_time() -> None:
    with pytest.raises(UsageError, match=r"no device reports inferense.*did you mean inference"):
        check_ins(replace(SPEC, slow="inferense"), seed=1, requirements=[])


def test_devices_and_sessions_of_files_are_matched_by_name(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu,link\na,8,\nb,2,8e6\n")
    (tmp_path / "sessions.csv").write_text("device,start_s,end_s\nb,0,5\na,1,2\nb,6,20\n")
    spec = PopulationSpec(devices=tmp_path / "phones.csv", sessions=tmp_path / "sessions.csv")
    population = check_ins(spec, seed=1, requirements=[requirement_of("cpu >= 4"), AllDevices()])
    (block,) = population.trace()
    assert population.devices == 2
    assert block.device.tolist() == [1, 0, 1]
    assert block.slow.tolist() == [0.5, 0.125, 0.5]
    assert block.byte_s.tolist() == [1e-6, 0, 1e-6]
    assert [population.kinds[kind].numbers["cpu"] for kind in block.kind.tolist()] == [2, 8, 2]
    first, second = islice(check_ins(replace(spec, replay_s=10.0), seed=1, requirements=[]).trace(), 2)
    assert first.end_s.tolist() == [5, 2, 10]  # b is there again at 10
    assert second.start_s.tolist() == [10, 11, 16]
    assert second.interval.tolist() == [3, 2, 4]


def test_files_of_fedscale_are_matched_by_place_and_round_again(tmp_path: Path) -> None:
    capacity = {n: {"computation": 10.0 * n, "communication": 8000.0} for n in (1, 3)}
    trace = {n: {"active": [n], "inactive": [n + 0.5]} for n in (5, 6, 7)}
    for name, value in (("capacity", capacity), ("trace", trace)):
        (tmp_path / name).write_bytes(pickle.dumps(value))
    spec = PopulationSpec(devices=tmp_path / "capacity", sessions=tmp_path / "trace", slow="inference")
    (block,) = check_ins(spec, seed=1, requirements=[]).trace()
    np.testing.assert_allclose(block.slow, np.array([10, 30, 10]) / (50 / 3))
    assert block.byte_s.tolist() == [1e-6] * 3


def test_a_file_of_devices_with_generated_sessions(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu\na,8\nb,2\n")
    spec = PopulationSpec(devices=tmp_path / "phones.csv", replay_s=86_400.0)
    assert check_ins(spec, seed=1, requirements=[]).devices == 2
    population = check_ins(replace(spec, count=5), seed=1, requirements=[])
    block = next(population.trace())
    assert population.devices == 5
    np.testing.assert_array_equal(block.slow, np.where(block.device % 2 == 0, 0.125, 0.5))


def test_a_device_without_a_speed_is_named(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu\na,8\nb,\nc,0\n")
    spec = PopulationSpec(devices=tmp_path / "phones.csv")
    with pytest.raises(UsageError, match=r"device 2 reports no cpu"):
        check_ins(spec, seed=1, requirements=[])
