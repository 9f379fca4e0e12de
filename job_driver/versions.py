"""Models of former rounds of an asynchronous job, kept while a device may still work with them.

A model goes when the next one has been out for a moment and every lease that was granted with it is over; without word
of its leases, as after a restart, when none can be live any more. The oldest goes first, so there are never more than
the rounds that have closed since the oldest live lease was granted.
"""

import math
from collections import defaultdict
from collections.abc import Mapping

from job_driver.artifacts import Artifact
from job_driver.checkpoint import Checkpoints, Former
from job_driver.job import Arrays
from venn.wire import tensors

SETTLE_S = 10.0  # after a model was replaced its last leases are known


class Versions:
    def __init__(self, checkpoints: Checkpoints, keep_s: float = math.inf) -> None:
        """``keep_s``: after its replacement no lease of a model lasts longer."""
        self.models: dict[int, Arrays] = {}  # by the round in which they were given, oldest first
        self._checkpoints, self.keep_s = checkpoints, keep_s
        self._artifacts: dict[int, Artifact] = {}
        self._replaced_at: dict[int, float] = {}
        self._live: defaultdict[int, set[int]] = defaultdict(set)  # leases, as far as they were heard of
        self._unheard: set[int] = set()  # rounds of which some leases may not have been heard of

    def load(self, former: Former, now: float) -> None:
        """One that an earlier process kept; if it is not there, or damaged, it is left out."""
        artifact = self._checkpoints.load_former(former)
        if artifact is not None:
            self._add(former.round, artifact, tensors.open_file(self._checkpoints.former(former.round)), now)
            self._unheard.add(former.round)

    def keep(self, round_: int, artifact: Artifact, arrays: Arrays, now: float) -> None:
        """This round's model, the newest checkpoint's, will be replaced."""
        self._checkpoints.keep(round_)
        self._add(round_, artifact, arrays, now)

    def former(self) -> tuple[Former, ...]:
        """For the checkpoint."""
        return tuple(Former(round_, artifact.digest.hex()) for round_, artifact in self._artifacts.items())

    def digests(self) -> set[bytes]:
        return {artifact.digest for artifact in self._artifacts.values()}

    def artifacts(self) -> Mapping[int, Artifact]:
        return self._artifacts

    def lease_granted(self, round_: int, lease: int) -> None:
        self._live[round_].add(lease)

    def lease_over(self, round_: int, lease: int) -> None:
        self._live[round_].discard(lease)

    def miss(self, round_: int) -> None:
        """Until now, in this round, some leases may have been granted that were not heard of."""
        self._unheard |= {*self.models, round_}

    def forget_leases(self) -> None:
        """Of a coordinator that is no more."""
        self._live.clear()

    def drop(self, now: float) -> None:
        """Those that nobody needs any more."""
        while self.models:
            round_ = next(iter(self.models))
            since_s = now - self._replaced_at[round_]
            over = round_ not in self._unheard and not self._live[round_] and since_s >= SETTLE_S
            if not over and since_s < self.keep_s:
                return
            self._checkpoints.former(round_).unlink(missing_ok=True)
            del self.models[round_], self._artifacts[round_], self._replaced_at[round_]
            self._live.pop(round_, None)

    def _add(self, round_: int, artifact: Artifact, arrays: Arrays, now: float) -> None:
        self.models[round_], self._artifacts[round_], self._replaced_at[round_] = arrays, artifact, now
