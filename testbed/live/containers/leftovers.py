"""Containers, networks and volumes of testbeds in the Docker Engine, found by their label."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from docker.errors import NotFound

from testbed.live.containers.engine import connect, obeyed
from venn.wire.errors import CannotEnforceError, VennError
from venn.wire.marks import LABEL, MARK

PATIENCE_S = 20.0  # for one order
Found = tuple[str, str, str, Callable[[], None]]  # kind, name, mark, and what removes it; that raises OSError


def find_made() -> Iterator[Found]:
    """Containers before the networks that they are in. Nothing where there is no engine that we may ask."""
    try:
        client = connect(PATIENCE_S)
    except CannotEnforceError:
        return
    filters: dict[str, str | list[str] | bool] = {"label": LABEL}
    with obeyed("what it has was not found"):
        made: list[tuple[str, Any, Callable[[Any], None]]] = [
            *(
                ("container", each, _remove)
                for each in client.containers.list(all=True, filters=filters, ignore_removed=True)
            ),
            *(("network", each, _forget) for each in client.networks.list(filters=filters)),
            *(("volume", each, _forget) for each in client.volumes.list(filters=filters)),
        ]
    for kind, each, remove in made:
        labels = each.labels if kind == "container" else each.attrs["Labels"]
        if MARK.fullmatch(mark := labels[LABEL]):
            yield kind, str(each.name), mark, partial(_done, remove, each)


def _done(remove: Callable[[Any], None], each: Any) -> None:
    try:
        with obeyed("it refused"), suppress(NotFound):
            remove(each)
    except VennError as error:
        raise OSError(error.message) from error


def _remove(container: Any) -> None:
    if container.status == "paused":  # the engine kills no other
        container.unpause()
    container.remove(force=True, v=True)


def _forget(network_or_volume: Any) -> None:
    network_or_volume.remove()
