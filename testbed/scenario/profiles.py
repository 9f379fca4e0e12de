"""What a fleet's ``profile`` and ``link`` give it: each key that it does not say itself, as far as it has an effect.

Capabilities hold on every backend. Limits are given where the backend can enforce them, those of the task to a fleet
with a process for each device. Elsewhere the same scenario runs with modelled times.
"""

from collections.abc import Iterator
from pathlib import Path

from testbed.scenario.backends import DEFAULT, OF_A_TASK, SIM, BackendSpec, backend_spec
from testbed.scenario.document import Document, Value
from testbed.scenario.errors import Finding
from testbed.world.profiles import CAPABILITIES, LINK_FIELDS, load_profile
from venn.wire.errors import UsageError


def give_processes(document: Document) -> None:
    """Where each device of a backend is a container, or the like: ``processes`` is ``count`` unless a fleet says it."""
    root = document.root
    fleets = root.get("fleets") if isinstance(root, dict) and _backend(root).each_device else None
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
    limits = _backend(root).limits
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
            given = _given(fleet, source, limits)
            if source == "link" and (wrong := [key for key in profile.values if key not in LINK_FIELDS]):
                message = f"{reference} is a device and not a link: it gives {wrong[0]}"
                yield Finding(("fleets", name, source), message, "`venn profile list` shows links")
                continue
            for key, value in profile.values.items():
                if key in given and key not in fleet:
                    fleet[key] = value.value
                    document.places.inherit(("fleets", name, key), ("fleets", name, source))


def _backend(root: dict[str, Value]) -> BackendSpec:
    """The backend that a document names; a wrong name is told elsewhere."""
    name = root.get("backend", DEFAULT)
    try:
        return backend_spec(name) if isinstance(name, str) else SIM
    except UsageError:
        return SIM


def _given(fleet: dict[str, Value], source: str, limits: frozenset[str]) -> set[str]:
    """The keys that a profile may give to this fleet, where the backend can enforce ``limits``."""
    own_link = source == "profile" and "link" in fleet
    keys = set() if own_link else set(LINK_FIELDS) & limits
    if source == "profile":
        keys |= set(CAPABILITIES)
    if fleet.get("processes", 1) == fleet.get("count"):
        keys |= set(OF_A_TASK) & limits
    return keys
