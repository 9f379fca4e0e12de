"""``every_job`` and ``every_device``: what each job and each fleet has unless it says otherwise.

Mappings are inherited key by key. ``key: null`` in a job or fleet takes an inherited key away. A job that says how
many rounds it has, in either way, does not inherit the other way; nor does a fleet that says when its devices are there
(by `session` and `gap`, or by `trace`).
"""

from testbed.scenario.document import Document, Value
from testbed.scenario.places import KeyPath, Places

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
        root[heirs] = {
            name: _inherit(entry, shared, (heirs, name), (source,), document.places) for name, entry in entries.items()
        }
    return Document(root, document.places)


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
