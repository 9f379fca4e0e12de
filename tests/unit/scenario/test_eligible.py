"""Requirements against devices."""

import pytest

from device_agent.spec import DeviceSpec
from testbed.scenario.requirements import served_by


def device(name: str, numbers: dict[str, float], **labels: tuple[str, ...]) -> DeviceSpec:
    return DeviceSpec(
        device=name,
        fleet=name[0],
        seed=7,
        numbers=numbers,
        labels={"fleet": (name[0],), **labels},
        data={},
        session=None,
        gap=None,
        crash=0.0,
        tasks_per_session=0,
        tasks_per_day=0,
        process=None,
    )


DEVICES = [
    device("a-01", {"cpu": 4.0, "memory": 2e9}, data=("digits", "words")),
    device("a-02", {"cpu": 8.0}, site=("lab",)),
    device("b-01", {"cpu": 8.0, "memory": 8e9, "os": 12.0}),
]


@pytest.mark.parametrize(
    ("text", "names"),
    {
        "all": "a-01 a-02 b-01",
        "cpu > 4": "a-02 b-01",
        "cpu >= 4 and cpu < 8": "a-01",
        "cpu <= 4 or os = 12": "a-01 b-01",
        "memory >= 4 GB": "b-01",
        "not memory >= 4 GB": "a-01 a-02",
        "fleet != a": "b-01",
        "site != home": "a-02",
        "data = words": "a-01",
        "id in (a-02; b-01; c-01)": "a-02 b-01",
        "(fleet = a or cpu > 4) and not id in (a-01)": "a-02 b-01",
        "nothing >= 1": "",
    }.items(),
)
def test_who_serves(text: str, names: str) -> None:
    assert [each.device for each in DEVICES if served_by(text, [each])] == names.split()
    assert served_by(text, DEVICES) == len(names.split())


def test_what_only_agents_know_is_left_open() -> None:
    assert served_by("cpu > 4 and not package = torch", DEVICES) is None
