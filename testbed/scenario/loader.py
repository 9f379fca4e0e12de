"""Load a scenario from a file: read, override, inherit, give what profiles give, validate, check.

Every problem is told with its line. ``every_job`` and ``every_device`` hold what each job and each fleet has unless it
says otherwise. Mappings are inherited key by key, and ``key: null`` takes an inherited key away. A job that says how
many rounds it has, in either way, does not inherit the other way; nor does a fleet that says when its devices are there
(by `session` and `gap`, or by `trace`).

``--set PATH=VALUE`` gives a key of the file another value, read and checked as if it stood in the file. A flag sets a
key, too: ``--policy=fifo`` is ``policy=fifo``, and is told as what the user gave. A fleet's ``profile`` and ``link``
give it each key that it does not say itself: capabilities on every backend, limits where the backend can enforce them,
and those of the task to a fleet with a process for each device.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from testbed.scenario.backends import DEFAULT, OF_A_TASK, SIM, BackendSpec, backend_spec
from testbed.scenario.checks import check
from testbed.scenario.document import DEEPEST, MOST_VALUES, Document, Value, parse_document, parse_value, read_document
from testbed.scenario.errors import MOST_FINDINGS, Finding, KeyPath, Places, Problem, ScenarioError, known, shown
from testbed.scenario.model import Confine, Data, Fleet, Job, Scenario, Workload
from testbed.scenario.population import DrawnJobs, Population
from testbed.world.limits import LINK
from testbed.world.profiles import CAPABILITIES, load_profile
from venn.wire.errors import UsageError
from venn.wire.text import printable

INHERITANCE = (("every_job", "jobs"), ("every_device", "fleets"))
_EITHER = ({"rounds": "max_rounds", "max_rounds": "rounds"}, {"session": "trace", "gap": "trace", "trace": "session"})


def resolve(document: Document) -> Document:
    """The document without ``every_job`` and ``every_device``, their keys given to those that inherit them.

    What is not a mapping where one belongs is left as it is, for the model to refuse.
    """
    if not isinstance(document.root, dict):
        return document
    root = dict(document.root)
    for source, heirs in INHERITANCE:
        shared, entries = root.get(source), root.get(heirs)
        if not isinstance(shared, dict):
            continue
        del root[source]
        if not isinstance(entries, dict):
            continue
        if _size(shared) * len(entries) > MOST_VALUES:
            message = f"gives more than {MOST_VALUES} values to the {len(entries)} {heirs}"
            raise ScenarioError([Problem(str(document.places.find((source,))), message, "write fewer keys there")])
        root[heirs] = {
            name: _inherit(entry, shared, (heirs, name), (source,), document.places) for name, entry in entries.items()
        }
    return Document(root, document.places)


def _size(value: Value) -> int:
    """The number of values in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def _inherit(own: Value, shared: dict[str, Value], path: KeyPath, source: KeyPath, places: Places) -> Value:
    """``own`` at ``path`` with what it lacks from ``shared`` at ``source``."""
    if not isinstance(own, dict):
        return own
    result: dict[str, Value] = {}
    for key, value in shared.items():
        if key in own or any(each.get(key) in own for each in _EITHER):
            continue
        result[key] = value
        places.inherit((*path, key), (*source, key))
    for key, value in own.items():
        inherited = shared.get(key)
        if value is None and key in shared:
            continue
        if isinstance(value, dict) and isinstance(inherited, dict):
            result[key] = _inherit(value, inherited, (*path, key), (*source, key), places)
        else:
            result[key] = value
    return result


# Below these keys stand names that the user chose: a name that is not there is a slip, not a wish for a new entry.
NAMED = ("jobs", "fleets", "data", "requirements")


def override(document: Document, overrides: Sequence[str]) -> Document:
    """The document with every override applied, in order. Raises ScenarioError."""
    root = document.root
    for text in overrides:
        root = _apply(root, text, document.places)
    return Document(root, document.places)


def as_words(overrides: Sequence[str]) -> list[str]:
    """Overrides as they stand on a command line."""
    return [word for each in overrides for word in ([each] if each.startswith("--") else ["--set", each])]


def _apply(root: Value, text: str, places: Places) -> Value:
    """The root with one override on its way down to its key."""
    flag = text.startswith("--")
    source = printable(text if flag else f"--set {text}")
    dotted, equals, written = text.removeprefix("--").partition("=")
    keys = dotted.replace("-", "_").split(".") if flag else dotted.strip().split(".")

    def fault(message: str, fix: str) -> ScenarioError:
        return ScenarioError([Problem(source, message, fix)])

    if not equals or not all(keys) or len(keys) > DEEPEST:
        raise fault("is not PATH=VALUE", "write e.g. --set jobs.handwriting.demand=30")
    new = parse_value(written, source)
    if flag and isinstance(new, dict):  # the value of a flag is a word, as FILE.py: is one
        new = written

    def changed(node: Value, path: KeyPath) -> Value:
        """``node``, which stands at ``path``, with the change made below it."""
        here = ".".join(map(str, path))
        if len(path) == len(keys):
            places.put(path, source, 0, called=() if flag else None)
            return new
        step = keys[len(path)]
        if isinstance(node, list):
            if not (step.isascii() and step.isdecimal() and int(step) < len(node)):
                raise fault(f"{here} is a list of {len(node)}", "name an entry by its number, from 0")
            index = int(step)
            return [*node[:index], changed(node[index], (*path, index)), *node[index + 1 :]]
        if node is not None and not isinstance(node, dict):
            raise fault(f"{here} has no keys", "set it whole")
        mapping = node or {}
        if here in NAMED and len(path) + 1 < len(keys) and step not in mapping:
            raise fault(f"there is no {step} in {here}", known(step, mapping))
        if node is None:
            places.put(path, source, 0)
        return {**mapping, step: changed(mapping.get(step), (*path, step))}

    return changed(root, ())


def _give_processes(document: Document) -> None:
    """Set ``processes`` to ``count`` unless a fleet says it, where each device is a container, or the like."""
    root = document.root
    fleets = root.get("fleets") if isinstance(root, dict) and _backend_of(root).each_device else None
    for name, fleet in fleets.items() if isinstance(fleets, dict) else ():
        if isinstance(fleet, dict) and "count" in fleet and "processes" not in fleet:
            fleet["processes"] = fleet["count"]
            document.places.inherit(("fleets", name, "processes"), ("fleets", name, "count"))


def _fill(document: Document, folder: Path) -> Iterator[Finding]:
    """Writes into the document's fleets. What is wrong with a profile is told where it is named."""
    root = document.root
    fleets = root.get("fleets") if isinstance(root, dict) else None
    if not isinstance(root, dict) or not isinstance(fleets, dict):
        return
    limits = _backend_of(root).limits
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
            if source == "link" and (wrong := [key for key in profile.values if key not in LINK]):
                message = f"{reference} is a device and not a link: it gives {wrong[0]}"
                yield Finding(("fleets", name, source), message, "`venn profile list` shows links")
                continue
            for key, value in profile.values.items():
                if key in given and key not in fleet:
                    fleet[key] = value.value
                    document.places.inherit(("fleets", name, key), ("fleets", name, source))


def _backend_of(root: dict[str, Value]) -> BackendSpec:
    """The backend that a document names; a wrong name is told elsewhere."""
    name = root.get("backend", DEFAULT)
    try:
        return backend_spec(name) if isinstance(name, str) else SIM
    except UsageError:
        return SIM


def _given(fleet: dict[str, Value], source: str, limits: frozenset[str]) -> set[str]:
    """The keys that a profile may give to this fleet, where the backend can enforce ``limits``."""
    own_link = source == "profile" and "link" in fleet
    keys = set() if own_link else set(LINK) & limits
    if source == "profile":
        keys |= set(CAPABILITIES)
    if fleet.get("processes", 1) == fleet.get("count"):
        keys |= set(OF_A_TASK) & limits
    return keys


# The mappings with fixed keys, by their pattern, in which None stands for a name that the user chose: the kind of
# mapping, where its keys belong, and its model.
KINDS: dict[tuple[str | None, ...], tuple[str, str, type[BaseModel]]] = {
    (): ("scenario", "at the top of the file", Scenario),
    ("jobs", None): ("job", "in a job or every_job", Job),
    ("jobs", None, "workload"): ("workload", "in a job's workload", Workload),
    ("fleets", None): ("fleet", "in a fleet or every_device", Fleet),
    ("confine",): ("confine", "in confine", Confine),
    ("data", None): ("data", "in an entry of data", Data),
    ("drawn_jobs",): ("drawn jobs", "in drawn_jobs", DrawnJobs),
    ("population",): ("population", "in population", Population),
}

# What to write where a key is missing.
_EXAMPLES = {
    "version": "version: 1",
    "name": "name: my-scenario",
    "demand": "demand: 20",
    "deadline": "deadline: 15s",
    "count": "count: 20",
    "arrives": "arrives: exp(30m)",
    "source": "source: sklearn-digits",
}


_ASYNCHRONOUS = "a job is asynchronous with buffer: N, and its demand is its concurrency"
# Keys without an effect, by the kind of mapping that could have them: refused with what to write, and never unknown.
LATER: dict[str, dict[str, str]] = {
    "job": dict.fromkeys(("aggregation", "asynchronous", "concurrency"), _ASYNCHRONOUS),
    "fleet": {"latency": "a round trip takes longer by delay: 50ms"},
}
_SHARED = {(source,) for source, _ in INHERITANCE}


def load(path: Path | str, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of a file, with ``PATH=VALUE`` overrides. Raises ScenarioError with the first problems found."""
    path = Path(path)
    return _scenario(read_document(path), path.absolute().parent, overrides)


def parse(text: str, *, source: str = "scenario.yaml", folder: Path | None = None) -> Scenario:
    """The scenario of a text; relative paths in it start at ``folder``, by default the current one.

    Raises ScenarioError with every problem that was found.
    """
    return _scenario(parse_document(text, source), (folder or Path()).absolute(), ())


def _scenario(document: Document, folder: Path, overrides: Sequence[str]) -> Scenario:
    if not isinstance(document.root, dict):
        message = f"{shown(document.root)} where the keys of a scenario should be"
        raise ScenarioError([Problem(str(document.places.find(())), message, "write key: value lines")])
    document = resolve(override(document, overrides))
    _give_processes(document)
    findings = list(islice(chain(_without_value(document.root, ()), _fill(document, folder)), MOST_FINDINGS))
    try:
        scenario = Scenario.model_validate(document.root, context={"folder": folder})
    except ValidationError as error:
        told = {each.path for each in findings}
        invalid = [_finding(each) for each in error.errors(include_url=False)[:MOST_FINDINGS]]
        findings += [each for each in invalid if each.path not in told]
    else:
        findings += check(scenario)
    if findings:
        raise ScenarioError(_problems(findings, document.places))
    return scenario


def _problems(findings: Sequence[Finding], places: Places) -> list[Problem]:
    """The problems in the order of the file; what many inherit is told once."""
    told = sorted(((places.find(each.path), each) for each in findings), key=lambda pair: pair[0].line)
    return list(dict.fromkeys(Problem(str(place), each.message, each.fix) for place, each in told))


def _without_value(value: Value, path: KeyPath) -> Iterator[Finding]:
    if value is None:
        yield Finding(path, "has no value", "write one, or remove the key")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _without_value(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _without_value(inner, (*path, index))


def _finding(error: ErrorDetails) -> Finding:
    """What pydantic found, in words for people."""
    path: KeyPath = tuple(step for step in error["loc"] if step != "[key]")
    match error["type"]:
        case "scenario":
            context = error["ctx"]
            return Finding(path, context["message"], context["fix"])
        case "extra_forbidden" if path not in _SHARED:
            return _unknown_key(path)
        case "missing":
            return Finding(path, "is missing", f"add e.g. {_EXAMPLES[str(path[-1])]}")
        case "extra_forbidden" | "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            return Finding(path, f"{shown(error['input'])} where keys should be", "write key: value pairs below it")
        case "sequence_str" | "is_instance_of" | "list_type" | "tuple_type":
            return Finding(path, f"{shown(error['input'])} where a list should be", "write - and an entry on each line")
        case _:
            return Finding(path, error["msg"])


def _keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a mapping of this kind may have."""
    return [*model.model_fields, *(source for source, _ in INHERITANCE if model is Scenario)]


def _unknown_key(path: KeyPath) -> Finding:
    key, above = str(path[-1]), path[:-1]
    name, _, model = next(
        kind
        for pattern, kind in KINDS.items()
        if len(pattern) == len(above) and all(want in (None, step) for want, step in zip(pattern, above, strict=True))
    )
    if key in LATER.get(name, {}):
        return Finding(path, "has no effect yet", f"remove it: {LATER[name][key]}")
    for _, home, other in KINDS.values():
        if other is not model and key in _keys_of(other):
            return Finding(path, "unknown key here", f"it belongs {home}")
    return Finding(path, "unknown key", known(key, _keys_of(model)))
