"""What the process of a comparison and those that simulate for it say to each other: one JSON object per line."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.compare.plan import Asked, cell_key, world_key
from testbed.report.jsonlines import Row, integer, text
from testbed.report.words import slug


@dataclass(frozen=True, slots=True)
class Order:
    """One cell to be simulated."""

    scenario: str  # a file: every override is made in it already
    name: str  # of the scenario
    policy: str
    seed: int
    world_key: str
    key: str  # of the cell
    world: str  # the file for what is true of the world
    out: str  # the file for the cell

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def read_order(line: bytes) -> Order:
    row: Row = json.loads(line)
    texts = {name: text(row, name) for name in ("scenario", "name", "policy", "world_key", "key", "world", "out")}
    return Order(seed=integer(row, "seed"), **texts)


def order_for(asked: Asked, scenario: Path) -> Order:
    """``scenario`` is the file that was made of the workload."""
    world = world_key(asked.workload, asked.seed)
    key = cell_key(world, asked.policy)
    return Order(
        scenario=str(scenario),
        name=asked.workload.name,
        policy=asked.policy,
        seed=asked.seed,
        world_key=world,
        key=key,
        world=str(asked.folder / f"world-{world}.json"),
        out=str(asked.folder / f"{slug(asked.policy)}-{key}.json"),
    )
