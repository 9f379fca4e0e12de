"""The services of compose.yaml that are no coordinator, driver or broker: the run as a whole, and a device.

``ComposeRun`` makes room for the other services, waits for their jobs, and reports. The other services write into
RUNS/.live, which is theirs (user 1000), and goes when this one ends, the last of all. The run folder beside it is made
from a copy, and belongs to whom RUNS belongs.

``make_replica`` makes one replica of a device's service. Replicas are anonymous and their number may change at any
time, so that nobody can deal shares to them. Each draws its own from what is there for devices, by its name. The name
comes from its container's, and so lasts as long as that does.
"""

import asyncio
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from device_agent.spec import DeviceSpec
from job_driver.cli import OVER
from testbed.live.host import HostMonitor
from testbed.live.throttle.account import gather
from testbed.live.throttle.container import USER
from testbed.report.result import PAGE, build_report
from testbed.report.view import snapshot_once
from testbed.runfolder.machine import write_manifest
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from testbed.world.data import split
from testbed.world.fleets import write_population
from testbed.world.limits import COUNTS
from testbed.world.profiles import CAPABILITIES, FIELDS, load_profile
from venn.wire.channel import parse_address
from venn.wire.errors import PeerError, UsageError
from venn.wire.files import write_atomic
from venn.wire.keys import ensure_keys
from venn.wire.login import log_in

LIVE = ".live"
POLL_S = 2.0
SETTLE_S = 10.0
BROKER_PASSWORD = "broker"
ROOM = ("devices", "jobs", "data")


@dataclass(slots=True, kw_only=True)
class ComposeRun:
    """A run of compose.yaml, from its first service to its report. ``attend`` once."""

    runs: Path  # run folders lie here, and LIVE
    project: Path  # the folder of compose.yaml
    shown: str  # what the caller calls ``runs``
    name: str
    policy: str
    seed: int
    jobs: tuple[str, ...]  # that are waited for
    expect: tuple[str, ...]
    data: str  # the name of the data set; its source is ``source``
    source: str
    held_out: Fraction
    coordinator: str
    duration_s: float
    say: Callable[[str], None]
    _warnings: list[str] = field(default_factory=list)

    async def attend(self) -> int:
        """Wait for the jobs and report, until it is cancelled. Raises UsageError; what goes wrong later is said."""
        live = RunFolder(self.runs / LIVE)
        with alone(live.root):
            self._owner()
            self._make_room(live)
            monitor = asyncio.create_task(HostMonitor(live.host, live.root, self._warn).run())
            reported = False
            try:
                self.say(f"ready; the jobs are {' and '.join(self.jobs)}")
                finished = await self._until_done(live)
                await settled(live, time.time())
                monitor.cancel()
                reported = True
                self._tell(await asyncio.to_thread(self._report, live, interrupted=not finished))
                await asyncio.Event().wait()
            finally:
                monitor.cancel()
                if not reported and live.events.exists():
                    self._tell(self._report(live, interrupted=True))
                _empty(live.root)
                live.root.rmdir()
        return 0

    # -- before

    def _make_room(self, live: RunFolder) -> None:
        """Make the folder ready, unless this container made it before it was started again. Raises UsageError."""
        owner = live.root / "owner"
        if owner.is_file() and owner.read_text() == socket.gethostname():
            return  # this container was started again, and the others run on
        _empty(live.root)
        for name in ROOM:
            (live.root / name).mkdir()
        for job in self.jobs:
            live.job(job).mkdir()
        split(self.source, devices=1, split="iid", held_out=self.held_out, seed=self.seed, out=live.data(self.data))
        ensure_keys(live.keys)
        write_atomic(live.keys / BROKER_PASSWORD, secrets.token_hex(32) + "\n", mode=0o600)
        give(live.root, USER, USER)
        write_atomic(owner, socket.gethostname())  # the last: the others wait for it

    # -- while it goes on

    async def _until_done(self, live: RunFolder) -> bool:
        """Whether all jobs are over, in time."""
        login = log_in("admin", self.coordinator, live.keys, insecure=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.duration_s):
                while True:
                    await asyncio.sleep(POLL_S)
                    with suppress(PeerError):  # the coordinator is not there yet, or starts again
                        jobs = (await snapshot_once(login)).jobs
                        if set(self.jobs) <= {job.key.name for job in jobs if job.phase in OVER}:
                            return True
        self._warn(f"gave up after {self.duration_s:g} s: jobs are unfinished")
        return False

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self.say(f"warning: {text}")

    # -- after

    def _report(self, live: RunFolder, *, interrupted: bool) -> tuple[RunFolder, Summary]:
        folder = RunFolder.create(self._new(), name=self.name, policy=self.policy, now=datetime.now())
        # A name with a dot is a file that is being written, and the next look would not find it.
        shutil.copytree(
            live.root, folder.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "owner", "keys")
        )
        for file in self.project.glob("compose.yaml"):
            shutil.copy(file, folder.root)
        gather(folder, cores=os.cpu_count() or 1)
        about = {
            "name": self.name,
            "policy": self.policy,
            "seed": self.seed,
            "backend": "compose",
            "jobs": list(self.jobs),
            "expect": list(self.expect),
            "interrupted": interrupted,
            "command": ["docker", "compose", "up"],
            "warnings": self._warnings,
        }
        write_manifest(folder.manifest, about)
        summary = build_report(folder.root)
        give(folder.root, *self._owner())
        return folder, summary

    def _new(self) -> Path:
        return self.runs / f"{datetime.now():%Y-%m-%d-%H%M%S}-{self.name}-{self.policy}"

    def _owner(self) -> tuple[int, int]:
        """The owner of ``runs``. Made by the engine, as root, it is given to the owner of the project's folder."""
        for folder in (self.runs, self.project):
            found = folder.stat()
            if found.st_uid != 0:
                break
        if self.runs.stat().st_uid != found.st_uid:
            os.chown(self.runs, found.st_uid, found.st_gid)
        return found.st_uid, found.st_gid

    def _tell(self, result: tuple[RunFolder, Summary]) -> None:
        folder, summary = result
        jobs = ", ".join(
            f"{job.name} {'finished' if job.finished else 'unfinished'}"
            + ("" if job.accuracy is None else f" with accuracy {job.accuracy:.3f}")
            for job in summary.jobs
        )
        failed = [one.expect for one in summary.expectations if not one.held]
        held = f"not held: {'; '.join(failed)}" if failed else "every expectation held"
        self.say(f"{jobs or 'no job has begun'}; {held}")
        page = Path(self.shown) / folder.root.name / PAGE
        live = "" if summary.interrupted else f"   live view: docker exec -it {_container(self.coordinator)} venn watch"
        self.say(f"report {page}{live}")


async def settled(live: RunFolder, since: float) -> None:
    """Wait until each relay has written down what it passed up to ``since``, for ``SETTLE_S`` seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _behind(live, since):  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(POLL_S / 10)


def _behind(live: RunFolder, since: float) -> bool:
    return any(path.stat().st_mtime <= since for path in live.root.glob(f"devices/*/{COUNTS}"))


@contextmanager
def alone(live: Path) -> Iterator[None]:
    """Lock a folder, so that no other project writes into its files. Raises UsageError."""
    live.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(live, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        fix = "end that one (docker compose down), or give this one another folder: VENN_RUNS=./other-runs"
        raise UsageError("IN_USE", "another project runs in this folder", where=str(live.parent), fix=fix) from None
    finally:
        os.close(descriptor)


def give(root: Path, user: int, group: int) -> None:
    """Change the owner of a folder and of all that is in it."""
    for path in (root, *root.rglob("*")):
        os.chown(path, user, group, follow_symlinks=False)


def _empty(folder: Path) -> None:
    """Remove what is in a folder, which stays: containers have it mounted."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _container(coordinator: str) -> str:
    """The name of the container behind a service's address, which the engine's name server knows."""
    host, _ = parse_address(coordinator)
    try:
        return socket.gethostbyaddr(socket.gethostbyname(host))[0].partition(".")[0]
    except OSError:
        return host


POOL = "share-0001.npz"  # of data for devices, all in one


def make_replica(folder: RunFolder, *, profile: str, host: str, data: str, samples: int, evenness: float) -> str:
    """Write the population file and the share of a device into its part of the run folder; return its name.

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
    """Draw a share, which depends on the pool and the name alone. Raises UsageError."""
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
    """The seed of a replica, from its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
