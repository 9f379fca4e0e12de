"""Backends: what a scenario, ``venn doctor`` and ``venn down`` must know of each, without the code that runs it.

A backend is an entry point of the group ``venn.backends`` that names a ``BackendSpec``. Importing the spec must be
cheap and need no extra package: it names its code, which is loaded when it is needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any

from testbed.world.limits import LINK
from testbed.world.timeline import Verb
from venn.wire.errors import UsageError
from venn.wire.exits import missing_package
from venn.wire.process import alive, own_mark

DEFAULT = "process"
BUILT_IN = ("process", "compose", "sim")  # what the JSON schema names, whatever else is installed
OF_A_TASK = ("cores", "memory_limit")  # keys of a fleet that limit what its tasks get
Need = tuple[str, str, str]  # what is needed, what is there of it, and else what is wrong and how to fix it


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that a testbed has made on this machine."""

    kind: str  # process, container, network, volume, namespace, cgroup, or a word of the backend
    name: str
    mark: str  # of the testbed that made it
    remove: Callable[[], None]  # raises OSError; it may be gone already

    @property
    def in_use(self) -> bool:
        """Whether its testbed still runs."""
        return alive(self.mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """What a backend can do, and where its code is: ``MODULE:FUNCTION``, or empty where it has none."""

    name: str  # as scenarios write it; its entry point has the same
    make: str = ""  # takes a ``testbed.live.backend.protocol.Run`` and returns a ``Backend``
    checks: str = ""  # takes nothing and yields a ``Need`` for each line of ``venn doctor``
    leftovers: str = ""  # takes nothing and yields each ``Leftover`` that this user can see, in the order of removal
    requires: str = "venn-testbed"  # what pip installs for its code
    simulated: bool = False  # in virtual time: no component is started
    limits: frozenset[str] = frozenset()  # keys of a fleet that it can enforce, of OF_A_TASK and LINK
    verbs: frozenset[Verb] = frozenset(Verb)  # of the timeline, that may be done to its devices
    outside: frozenset[Verb] = frozenset()  # of them, what it does to a device, so that the device does not play it
    code_here: bool = False  # drivers import jobs with the Python packages of this machine
    each_device: str = ""  # what each device is, as "container"; empty: some may share a process
    devices_here: bool = True  # devices take memory and processors of this machine
    overhead_bytes: int = 0  # of memory for each component, beyond the component's own

    def load(self, what: str) -> Any:
        """The function that ``make``, ``checks`` or ``leftovers`` names. Raises UsageError MISSING_PACKAGE."""
        try:
            return resolve_name(what)
        except ModuleNotFoundError as error:
            missing = missing_package(error, f"backend: {self.name}")
            missing.fix = f"pip install '{self.requires}'"
            raise missing from error


SIM = BackendSpec(name="sim", simulated=True, limits=frozenset(LINK))


@cache
def _installed() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group="venn.backends")}


def backend_names() -> tuple[str, ...]:
    """The backends that a scenario may name: the default first, simulation last."""
    return (*sorted(_installed(), key=lambda name: (name != DEFAULT, name)), SIM.name)


@cache
def backend_spec(name: str) -> BackendSpec:
    """The backend of this name. Raises UsageError BACKEND: it is not installed, or cannot be loaded."""
    if name == SIM.name:
        return SIM
    fix = "install its package again"
    if name not in _installed():
        raise UsageError("BACKEND", f"the backend {name} is not installed", fix=fix)
    try:
        spec = _installed()[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError("BACKEND", f"the backend {name} cannot be loaded: {error}", fix=fix) from error
    if not isinstance(spec, BackendSpec):
        raise UsageError("BACKEND", f"the entry point of the backend {name} names no BackendSpec", fix=fix)
    return spec


def each_device(name: str) -> str:
    """What each device of a backend is, as "container"; "" if it is not known, or not the same for all."""
    try:
        return backend_spec(name).each_device
    except UsageError:
        return ""


def needs_of_backends() -> Iterator[tuple[str, list[Need]]]:
    """Each backend that needs something, and what, for `venn doctor`."""
    for name in backend_names():
        try:
            spec = backend_spec(name)
            if spec.checks:
                yield name, list(spec.load(spec.checks)())
        except UsageError as error:
            yield name, [("package", "", f"{error.message}; {error.fix}")]


def leftovers_of_backends() -> Iterator[Leftover]:
    """What all backends have left, but for what this process has made, for `venn down`.

    A backend whose package is not installed has left nothing.
    """
    for name in backend_names():
        try:
            spec = backend_spec(name)
            find = spec.load(spec.leftovers) if spec.leftovers else tuple
        except UsageError:
            continue
        yield from (each for each in find() if each.mark != own_mark())
