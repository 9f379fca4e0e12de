"""What a fleet's ``profile`` and ``link`` give it: each key that it does not say itself, as far as it has an effect.

Capabilities and links hold on every backend. Limits of the task are given where they can be enforced: on real
processes, to a fleet with a process for each device. Elsewhere the same scenario runs with modelled times.
"""

from collections.abc import Iterator
from pathlib import Path

from testbed.scenario.document import Document, Value
from testbed.scenario.errors import Finding
from testbed.world.profiles import CAPABILITIES, LINK_FIELDS, load_profile
from venn.wire.errors import UsageError

REAL = ("process", "compose")  # backends whose devices are real, and have a processor and memory to be limited
OF_A_TASK = ("cores", "memory_limit")


def give_containers(document: Document) -> None:
    """With backend compose each device has one: ``processes`` is ``count`` where a fleet does not say it."""
    root = document.root
    fleets = root.get("fleets") if isinstance(root, dict) and root.get("backend") == "compose" else None
    for name, fleet in fleets.items() if isinstance(fleets, dict) else ():
        if isinstance(fleet, dict) and "count" in fleet and "processes" not in fleet:
            fleet["processes"] = fleet["count"]
            document.places.inherit(("fleets", name, "processes"), ("fleets", name, "count"))


def fill(document: Document, folder: Path) -> Iterator[Finding]:
    """Writes into the document's fleets. What is wrong with a profile is told where it is named."""
    root = document.root
    fleets = root.get("fleets") if isinstance(root, dict) else None
    if not isinstance(root, dict) or not isinstance(fleets, dict):
        return
    real = root.get("backend", REAL[0]) in REAL
    for name, fleet in fleets.items():
        if not isinstance(fleet, dict):
            continue
        for source in ("link", "profile"):  # what comes first goes before
            reference = fleet.get(source)
            if not isinstance(reference, str):
                continue
            try:
                profile = load_profile(reference, folder=folder)
            except UsageError as error:
                where = f" ({error.where})" if error.where else ""
                yield Finding(("fleets", name, source), f"{error.message}{where}", error.fix)
                continue
            given = _given(fleet, source, real)
            if source == "link" and (wrong := [key for key in profile.values if key not in LINK_FIELDS]):
                message = f"{reference} is a device and not a link: it gives {wrong[0]}"
                yield Finding(("fleets", name, source), message, "`venn profile list` shows links")
                continue
            for key, value in profile.values.items():
                if key in given and key not in fleet:
                    fleet[key] = value.value
                    document.places.inherit(("fleets", name, key), ("fleets", name, source))


def _given(fleet: dict[str, Value], source: str, real: bool) -> set[str]:
    """The keys that a profile may give to this fleet."""
    own_link = source == "profile" and "link" in fleet
    keys = set() if own_link else set(LINK_FIELDS)
    if source == "profile":
        keys |= set(CAPABILITIES)
    if real and fleet.get("processes", 1) == fleet.get("count"):
        keys |= set(OF_A_TASK)
    return keys
