"""Supply: how often devices of each capability class check in, as integer counts in buckets over a window.

What plans see changes only at ticks: at the end of each bucket, and within the first one, while everything is new,
about every second as well. Until a window has passed the counts cover what has been seen.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from coordinator.engine.ids import RegionId
from coordinator.engine.model import EngineSettings
from coordinator.engine.regions import Regions

COLD_TICK_S = 1.0  # within the first bucket; no shorter than a bucket's part of it


class Supply:
    """The check-ins of all devices, or of one tier."""

    def __init__(self, settings: EngineSettings, start: float) -> None:
        self.start = start
        self.window_s = settings.supply_window_s
        self.bucket_s = settings.supply_window_s / settings.supply_buckets
        self.cold_s = min(self.bucket_s, max(COLD_TICK_S, self.bucket_s / settings.supply_buckets))
        self.buckets: deque[dict[int, int]] = deque([{}])  # class -> check-ins; the last one is running
        self.totals: dict[int, int] = {}  # the sum of the buckets
        self.published: dict[int, int] = {}  # totals as of the last tick
        self.span_s = self.cold_s  # that ``published`` covers, > 0
        self.next_tick = start + self.cold_s
        self._most = settings.supply_buckets
        self._cold_ticks = 1  # begun within the first bucket
        self._bucket = 0  # the number of the running one
        self._planned: Mapping[RegionId, int] = {}  # what the last plan saw
        self._planned_span_s = self.cold_s
        self._by_region: Mapping[RegionId, int] = {}  # ``published``, of ...
        self._by_region_of: tuple[object, object] = (None, None)  # ... these counts and views of regions

    def count(self, class_id: int, devices: int = 1) -> None:
        """Count check-ins of devices of this class, each the first in its availability interval."""
        running = self.buckets[-1]
        running[class_id] = running.get(class_id, 0) + devices
        self.totals[class_id] = self.totals.get(class_id, 0) + devices

    def tick(self, now: float) -> None:
        """Publish the counts: ``next_tick`` has come."""
        if self._bucket == 0 and now < self.start + self.bucket_s:
            self._cold_ticks += 1
            self.next_tick = min(self.start + self._cold_ticks * self.cold_s, self.start + self.bucket_s)
        else:
            self._roll(max(int((now - self.start) / self.bucket_s), self._bucket + 1))
            self.next_tick = self.start + (self._bucket + 1) * self.bucket_s
        self.published = dict(self.totals)
        self.span_s = max(min(now - self.start, self.window_s), self.cold_s)

    def by_region(self, regions: Regions) -> Mapping[RegionId, int]:
        """Published check-ins per region, ascending; regions without any are absent. Read-only: policies see it.

        The same object until counts are published or regions are numbered anew.
        """
        published, views = self.published, regions.views()
        if self._by_region_of[0] is not published or self._by_region_of[1] is not views:
            counts: dict[RegionId, int] = {}
            for class_id, count in published.items():
                region = regions.region_of(class_id)
                counts[region] = counts.get(region, 0) + count
            self._by_region, self._by_region_of = MappingProxyType(dict(sorted(counts.items()))), (published, views)
        return self._by_region

    def plan_made(self, counts: Mapping[RegionId, int]) -> None:
        """Note the ``counts`` that a plan was made of; they are never changed from here on."""
        self._planned, self._planned_span_s = counts, self.span_s

    def moved(self, counts: Mapping[RegionId, int]) -> bool:
        """Whether the rate of a region has changed by more than a tenth since the last plan."""
        before, was_us, is_us = self._planned, _microseconds(self._planned_span_s), _microseconds(self.span_s)
        return any(
            abs(counts.get(region, 0) * was_us - before.get(region, 0) * is_us) * 10 > before.get(region, 0) * is_us
            for region in {**before, **counts}
        )

    def recut(self, shares: Mapping[int, tuple[tuple[int, int], ...]]) -> int:
        """Move counts to classes cut anew: old -> (new class, weight). Returns how many were shared in proportion."""
        guessed = sum(self.totals.get(class_id, 0) for class_id, into in shares.items() if len(into) > 1)
        self.buckets = deque(_recut(bucket, shares) for bucket in self.buckets)
        self.totals = {}
        for bucket in self.buckets:
            for class_id, count in bucket.items():
                self.totals[class_id] = self.totals.get(class_id, 0) + count
        self.published = _recut(self.published, shares)
        return guessed

    def _roll(self, bucket: int) -> None:
        """Make number ``bucket`` the running bucket."""
        for _ in range(min(bucket - self._bucket, self._most + 1)):
            self.buckets.append({})
            if len(self.buckets) > self._most + 1:
                for class_id, count in self.buckets.popleft().items():
                    self.totals[class_id] -= count
                    if not self.totals[class_id]:
                        del self.totals[class_id]
        self._bucket = bucket


def _microseconds(seconds: float) -> int:
    """Integers, so that a tenth is a tenth."""
    return round(seconds * 1e6)


def _recut(counts: Mapping[int, int], shares: Mapping[int, tuple[tuple[int, int], ...]]) -> dict[int, int]:
    """Divide each count among its new classes in proportion to their weights; what is left, by largest remainder."""
    result: dict[int, int] = {}
    for class_id, count in counts.items():
        into = shares[class_id]
        total = sum(weight for _, weight in into)
        parts = {new: count * weight // total for new, weight in into}
        left = count - sum(parts.values())
        for new, _ in sorted(into, key=lambda part: (-(count * part[1] % total), part[0]))[:left]:
            parts[new] += 1
        for new, part in parts.items():
            if part:
                result[new] = result.get(new, 0) + part
    return result
