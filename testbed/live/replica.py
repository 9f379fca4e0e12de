"""One replica of a device's service in compose.yaml: what it is called, what it is, and its share of the data.

Replicas are anonymous and their number may change at any time, so that nobody can deal shares to them. Each draws its
own from what is there for devices, by its name. The name comes from its container's, and so lasts as long as that does.
"""

import hashlib
from pathlib import Path

import numpy as np

from testbed.live.folder import RunFolder
from testbed.population.device import DeviceSpec, write_population
from testbed.profiles import load_profile
from testbed.profiles.model import CAPABILITIES, FIELDS
from venn.wire.errors import UsageError

POOL = "share-0001.npz"  # of data for devices, all in one


def make_replica(folder: RunFolder, *, profile: str, host: str, data: str, samples: int, evenness: float) -> str:
    """Writes its population file and its share into its part of the run folder; returns its name.

    ``samples`` are drawn from the data set ``data``, without repetition, its classes in proportions of
    Dirichlet(``evenness``). Raises UsageError.
    """
    known = load_profile(profile).values
    name = f"{profile}-{host}"
    own = folder.device_host(name)
    share = own / f"{data}.npz"
    if not share.exists():
        draw(folder.data(data) / POOL, share, name=name, samples=samples, evenness=evenness)
    spec = DeviceSpec(
        device=name,
        fleet=profile,
        seed=seed_of(name),
        numbers={key: FIELDS[key](known[key].value) for key in CAPABILITIES if key in known},
        labels={"fleet": (profile,), "data": (data,)},
        data={data: share},
        session=None,
        gap=None,
        crash=0.0,
        tasks_per_session=0,
        tasks_per_day=0,
        process=name,
    )
    write_population(own / "population.jsonl", [spec])
    return name


def draw(pool: Path, share: Path, *, name: str, samples: int, evenness: float) -> None:
    """A share, which depends on the pool and the name alone. Raises UsageError."""
    try:
        with np.load(pool, allow_pickle=False) as arrays:
            x, y = arrays["x"], arrays["y"]
    except OSError as error:
        fix = "name the run folder and the --data that `venn compose attend` has made"
        raise UsageError("DATA", f"cannot be read: {error.strerror}", where=str(pool), fix=fix) from None
    rng = np.random.default_rng(seed_of(name))
    classes, of_class, counts = np.unique(y, return_inverse=True, return_counts=True)
    chances = (rng.dirichlet(np.full(len(classes), evenness)) / counts)[of_class]
    rows = rng.choice(len(y), min(samples, len(y)), replace=False, p=chances / chances.sum())
    share.parent.mkdir(parents=True, exist_ok=True)
    np.savez(share, x=x[rows], y=y[rows])


def seed_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
