"""How the devices of a run were slowed down: what was asked, what was in force, by which means."""

import json
from pathlib import Path
from typing import Any

from testbed.runfolder.summary import Emulation, Limit
from testbed.world.limits import OF_A_CONTAINER
from venn.wire.errors import UsageError

FILE = "emulation.json"
NOT_IN_FORCE = "not in force"


SIMULATED = Emulation(cpu="modelled", memory="not limited", link="modelled", processes=0)


def read_emulation(folder: Path, *, devices: int, processes: int) -> Emulation:
    """Of a live run. Raises UsageError if its file was damaged."""
    try:
        value = json.loads((folder / FILE).read_text(encoding="utf-8"))
        limits = tuple(_limit(row) for row in value["limits"])
        degraded = tuple(str(each) for each in value["degraded"])
        counts = {str(row["fleet"]): int(row["count"]) for row in value["fleets"]}
    except FileNotFoundError:
        return Emulation(cpu="modelled", memory="not limited", link="not limited", processes=processes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "restore the file, or run again"
        raise UsageError("RUN_DAMAGED", f"{error}", where=str(folder / FILE), fix=fix) from None
    return Emulation(
        cpu=_told(limits, {"cores"}, counts, devices, "modelled"),
        memory=_told(limits, {"memory_limit"}, counts, devices, "not limited"),
        link=_told(limits, {"up", "down", "delay", "jitter", "loss"}, counts, devices, "not limited"),
        processes=processes,
        limits=limits,
        degraded=degraded,
    )


def is_slow_as_a_whole(host_folder: Path) -> bool:
    """Whether a host of devices is a container with few cores: its session is as slow as its task, and says nothing of
    the machine."""
    try:
        return '"cores"' in (host_folder / OF_A_CONTAINER).read_text(encoding="utf-8")
    except OSError:
        return False


def _told(limits: tuple[Limit, ...], keys: set[str], counts: dict[str, int], devices: int, else_: str) -> str:
    """``tc and relay on 2 devices, else not limited``."""
    chosen = [limit for limit in limits if limit.key in keys]
    means = dict.fromkeys(limit.means or NOT_IN_FORCE for limit in chosen)
    held = sum(counts[fleet] for fleet in {limit.fleet for limit in chosen})
    if not held:
        return else_
    others = f", else {else_}" if held < devices else ""
    return f"{' and '.join(means)} on {held} device{'s' if held > 1 else ''}{others}"


def _limit(row: Any) -> Limit:
    read_back = row["read_back"]
    return Limit(
        str(row["fleet"]),
        str(row["key"]),
        str(row["asked"]),
        None if read_back is None else float(read_back),
        str(row["means"]),
    )
