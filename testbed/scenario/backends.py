"""Backends: what a scenario, ``venn doctor`` and ``venn down`` must know of each, without the code that runs it.

A backend is an entry point of the group ``venn.backends`` that names a ``BackendSpec``. Importing the spec must be
cheap and need no extra package: it names its code, which is loaded when it is needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, TypeVar

from testbed.world.limits import LINK
from testbed.world.timeline import Verb
from venn.wire.errors import UsageError, VennError
from venn.wire.exits import missing_package
from venn.wire.process import alive, own_mark

DEFAULT = "process"
BUILT_IN = ("process", "compose", "sim")  # what the JSON schema names, whatever else is installed
OF_A_TASK = ("cores", "memory_limit")  # keys of a fleet that limit what its tasks get
OUTSIDE = frozenset((Verb.SUSPEND, Verb.DISCONNECT, Verb.PARTITION))  # what a backend begins and ends by itself
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a backend needs of this machine: exactly one of ``found`` and ``missing`` is not empty.

    Raises ValueError for both, and for neither.
    """

    name: str
    found: str = ""  # what is there, if it is enough
    missing: str = ""  # else what is wrong, and how to fix it

    def __post_init__(self) -> None:
        if bool(self.found) == bool(self.missing):
            both = "both found and missing" if self.found else "neither found nor missing"
            raise ValueError(f"the need {self.name} has {both}")


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

    name: str  # as scenarios write it; its entry point must have the same
    make: str = ""  # takes a ``testbed.live.backend.protocol.Run`` and returns a ``Backend``
    checks: str = ""  # takes nothing and yields a ``Need`` for each line of ``venn doctor``
    leftovers: str = ""  # takes nothing and yields each ``Leftover`` that this user can see, in the order of removal
    requires: str = "venn-testbed"  # what pip installs for its code
    simulated: bool = False  # in virtual time: no component is started
    limits: frozenset[str] = frozenset()  # keys of a fleet that it can enforce, of OF_A_TASK and LINK
    verbs: frozenset[Verb] = frozenset(Verb)  # of the timeline, that may be done to its devices
    outside: frozenset[Verb] = frozenset()  # of OUTSIDE: what it does to a device, which does not play it then
    outside_of: str = ""  # takes a Scenario and a fleet, returns those of ``outside`` for its devices; empty: all
    as_well: frozenset[Verb] = frozenset()  # CRASH, DISCONNECT, PARTITION: what it does while the device plays it, too
    code_here: bool = False  # drivers import jobs with the Python packages of this machine
    each_device: str = ""  # what each device is, as "container"; empty: some may share a process
    devices_here: bool = True  # devices take memory and processors of this machine
    overhead_bytes: int = 0  # of memory for each component, beyond the component's own

    def __post_init__(self) -> None:
        for key, verbs, can in (
            ("outside", self.outside, OUTSIDE),
            ("as_well", self.as_well, {Verb.CRASH, *OUTSIDE} - {Verb.SUSPEND} - self.outside),
        ):
            if wrong := sorted(verbs - can):
                raise ValueError(f"{key} has {wrong[0]}, and can have {', '.join(sorted(can)) or 'nothing'}")

    def load(self, what: str) -> Any:
        """The function that ``make``, ``checks``, ``leftovers`` or ``outside_of`` names.

        Raises UsageError: MISSING_PACKAGE, or BACKEND if it cannot be loaded.
        """
        try:
            return resolve_name(what)
        except ModuleNotFoundError as error:
            missing = missing_package(error, f"backend: {self.name}")
            missing.fix = f"pip install '{self.requires}'"
            raise missing from error
        except (Exception, SystemExit) as error:
            raise _fault(self.name, f"cannot load {what}", error) from error

    def call(self, what: str, *arguments: object) -> Any:
        """What the function that ``what`` names returns. Raises VennError: of ``load``, its own, or BACKEND."""
        function = self.load(what)
        try:
            return function(*arguments)
        except VennError:
            raise
        except Exception as error:
            if self.name in BUILT_IN:
                raise  # our bug, which is told as one
            raise _fault(self.name, f"failed in {what}", error) from error


SIM = BackendSpec(name="sim", simulated=True, limits=frozenset(LINK))


@cache
def _installed() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group="venn.backends")}


def backend_names() -> tuple[str, ...]:
    """The backends that a scenario may name: the default first, simulation last."""
    return (*sorted(_installed(), key=lambda name: (name != DEFAULT, name)), SIM.name)


def _fault(name: str, what: str, error: BaseException | str) -> UsageError:
    """The error of a backend whose code is at fault: names its entry point and its package."""
    point = _installed().get(name)
    package = point.dist.name if point is not None and point.dist is not None else ""
    of = f" of the package {package}" if package else ""
    origin = f" (entry point {name} = {point.value}{of})" if point is not None else ""
    said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    fix = f"correct its package, or remove it: pip uninstall {package}" if package else "install its package again"
    if name in BUILT_IN:
        fix = "install venn-testbed again; if that does not help, please report it"
    return UsageError("BACKEND", f"the backend {name}{origin} {what}: {said}", fix=fix)


@cache
def backend_spec(name: str) -> BackendSpec:
    """The backend of this name. Raises UsageError BACKEND: it is not installed, or cannot be loaded."""
    if name == SIM.name:
        return SIM
    if name not in _installed():
        raise UsageError("BACKEND", f"the backend {name} is not installed", fix="install its package again")
    try:  # foreign code, that may raise anything
        spec = _installed()[name].load()
    except (Exception, SystemExit) as error:
        raise _fault(name, "cannot be loaded", error) from error
    if not isinstance(spec, BackendSpec):
        raise _fault(
            name, "cannot be loaded", f"its entry point names one of type {type(spec).__name__}, not a BackendSpec"
        )
    if spec.name != name:
        raise _fault(name, "cannot be loaded", f"its BackendSpec has the name {spec.name!r}; both must be the same")
    return spec


def each_device(name: str) -> str:
    """What each device of a backend is, as "container"; "" if it is not known, or not the same for all."""
    try:
        return backend_spec(name).each_device
    except UsageError:
        return ""


Faults = Mapping[str, VennError]  # by backend: why it could not be asked


def needs_of_backends() -> tuple[dict[str, list[Need]], Faults]:
    """What each backend needs that needs something, for `venn doctor`, and those that could not be asked."""
    needs, failed = _asked("checks", Need)
    missing, faults = _missing(failed)
    needs |= {name: [Need("package", missing=f"{error.message}; {error.fix}")] for name, error in missing.items()}
    return {name: each for name in backend_names() if (each := needs.get(name))}, faults


def leftovers_of_backends() -> tuple[list[Leftover], Faults]:
    """What all backends have left, but for what this process has made, for `venn down`, and those that could not be
    asked. A backend whose code needs a package that is not installed has left nothing.
    """
    found, failed = _asked("leftovers", Leftover)
    return [each for several in found.values() for each in several if each.mark != own_mark()], _missing(failed)[1]


def _asked(what: str, kind: type[T]) -> tuple[dict[str, list[T]], dict[str, VennError]]:
    """What the function ``what`` of each backend yields, and the errors of those that fail: one hinders no other."""
    found: dict[str, list[T]] = {}
    failed: dict[str, VennError] = {}
    for name in backend_names():
        try:
            spec = backend_spec(name)
            function = getattr(spec, what)
            found[name] = []
            for each in spec.load(function)() if function else ():
                if not isinstance(each, kind):
                    raise TypeError(f"{function} gives one of type {type(each).__name__}, not a {kind.__name__}")
                found[name].append(each)
        except VennError as error:
            failed[name] = error
        except (Exception, SystemExit) as error:
            failed[name] = _fault(name, f"failed in its {what}", error)
    return found, failed


def _missing(failed: Faults) -> tuple[Faults, Faults]:
    """The backends whose code needs a package that is not there, and the others."""
    missing = {name: error for name, error in failed.items() if error.reason == "MISSING_PACKAGE"}
    return missing, {name: error for name, error in failed.items() if name not in missing}
