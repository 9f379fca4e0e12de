"""Groups, capability classes and regions.

A *class* holds the devices whose answers to every known comparison (every atom of every requirement seen lately) are
alike; so they are alike for every requirement, and a new requirement over known comparisons finds its past supply by
class. A *region* is a set of groups with unfinished jobs; each class is in exactly one. Regions are numbered anew when
a group comes or goes, in the order of classes, which are interned on sight.

At most ``most`` classes are interned. A device beyond that is in the class OVERFLOW and in the region of that number's
own: what it can serve is then decided by its own capabilities, one by one, and not by its region.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.engine.ids import DeviceId, GroupId, RegionId
from coordinator.engine.plan import GroupView
from coordinator.engine.requirements import (
    AllDevices,
    Capabilities,
    Comparison,
    Ids,
    Requirement,
    group_of,
    leaves,
)

OVERFLOW = -1  # the class of devices beyond the bound
MOST_ATOMS = 64  # comparisons of ended jobs are remembered until there are so many
MOST_KINDS = 4096  # capabilities, each an object of its own, whose class is remembered
TOGETHER = 4096  # numbers that are made at a time


@dataclass(slots=True, eq=False)
class Group:
    """A job group: the unfinished jobs with one requirement."""

    id: GroupId
    requirement: Requirement
    name: str  # for people, from its first job
    jobs: int = 0  # unfinished; at 0 the group goes
    regions: tuple[RegionId, ...] = ()  # ascending; without the overflow region
    shared: int = 0  # past check-ins that could not be split exactly when it came
    devices: int = 0  # known ones that are eligible; those of the class OVERFLOW are all taken for such


@dataclass(slots=True)
class DeviceClass:
    """A capability class."""

    sample: tuple[DeviceId, Capabilities]  # of one of its devices: any will do
    region: RegionId = field(default=RegionId(0))
    devices: int = 0  # known devices of this class


@dataclass(slots=True, eq=False)
class Region:
    """A set of groups, and the classes of devices that are eligible for exactly these."""

    id: RegionId
    groups: frozenset[GroupId]
    classes: list[int] = field(default_factory=list)  # ascending


@dataclass(slots=True)
class Recut:
    """What new comparisons did to the classes."""

    devices: dict[DeviceId, int] = field(default_factory=dict)  # the new class of each known device
    shares: dict[int, tuple[tuple[int, int], ...]] = field(
        default_factory=dict
    )  # old class -> (new class, weight >= 1)


class Regions:
    """The groups, classes and regions of one engine."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.groups: dict[GroupId, Group] = {}  # with unfinished jobs, in the order in which they came
        self.classes: list[DeviceClass] = []
        self.regions: dict[RegionId, Region] = {}  # ascending
        self.overflow = RegionId(most)  # the region of the class OVERFLOW
        self.overflow_devices = 0
        self._atoms: dict[str, Comparison | Ids] = {}  # by their text
        self._by_name = False  # an atom asks for certain devices: then those with the same capabilities are not alike
        self._numbers: list[int] = []  # of classes: made together they lie together, and each look-up reads one
        self._index: dict[tuple[bool, ...], int] = {}  # answers to the atoms, in their order -> class
        self._kinds: dict[int, tuple[Capabilities, int]] = {}  # (itself, class), by its identity
        self._by_groups: dict[frozenset[GroupId], Region] = {}
        self._views: tuple[GroupView, ...] | None = None  # until a region comes, or all are numbered anew

    def region_of(self, class_id: int) -> RegionId:
        return self.overflow if class_id == OVERFLOW else self.classes[class_id].region

    def eligible(self, group: Group, class_id: int, device: DeviceId, capabilities: Capabilities) -> bool:
        if class_id == OVERFLOW:
            return group.requirement.matches(device, capabilities)
        return group.id in self.regions[self.classes[class_id].region].groups

    def wanted(self, class_id: int, device: DeviceId, capabilities: Capabilities) -> bool:
        """Whether there is an unfinished job that such a device may serve."""
        if class_id == OVERFLOW:
            return any(group.requirement.matches(device, capabilities) for group in self.groups.values())
        return bool(self.regions[self.classes[class_id].region].groups)

    def views(self) -> tuple[GroupView, ...]:
        """The groups as policies see them, by group id; the same tuple as before while nothing in it has changed."""
        if self._views is None:
            self._views = tuple(GroupView(group.id, group.regions) for _, group in sorted(self.groups.items()))
        return self._views

    def classify(self, device: DeviceId, capabilities: Capabilities) -> int:
        """The class of a device: a new one, put into its region, if none is like it yet."""
        interned = len(self.classes)
        class_id = self._class(device, capabilities)
        if class_id == interned:
            self._place(class_id)
        return class_id

    def count(self, class_id: int, change: int) -> None:
        """Count a known device that joins (+1) or leaves (-1) a class."""
        if class_id == OVERFLOW:
            self.overflow_devices += change
            groups: Iterable[GroupId] = self.groups
        else:
            self.classes[class_id].devices += change
            groups = self.regions[self.classes[class_id].region].groups
        for group in groups:
            self.groups[group].devices += change

    def add_job(self, requirement: Requirement, name: str) -> Group:
        """Add a job. If its group is new (``jobs`` is 1), ``rebuild`` follows, after ``recut`` if with new atoms."""
        group = self.groups.setdefault(group_of(requirement), Group(group_of(requirement), requirement, name))
        group.jobs += 1
        return group

    def remove_job(self, group: Group) -> None:
        """Remove a job. If its group goes with it (``jobs`` is 0), ``rebuild`` follows."""
        group.jobs -= 1
        if group.jobs == 0:
            del self.groups[group.id]

    def has_new_atoms(self, requirement: Requirement) -> bool:
        return any(text not in self._atoms for text, _ in _atoms_of(requirement))

    def recut(self, devices: Iterable[tuple[DeviceId, Capabilities, int, int]]) -> Recut:
        """Cut the classes by the atoms of all groups. ``devices``: (id, capabilities, class, weight) of all known.

        ``rebuild`` follows.
        """
        self._learn_atoms()
        former, self.classes, self._index, self._kinds, self.overflow_devices = self.classes, [], {}, {}, 0
        done = Recut()
        weights: dict[int, dict[int, int]] = {}
        for device, capabilities, before, weight in devices:
            after = self._class(device, capabilities)
            done.devices[device] = after
            if after == OVERFLOW:
                self.overflow_devices += 1
            else:
                self.classes[after].devices += 1
            into = weights.setdefault(before, {})
            into[after] = into.get(after, 0) + max(weight, 1)
        for class_id, old in enumerate(former):
            into = weights.get(class_id) or {self._class(*old.sample): 1}
            done.shares[class_id] = tuple(sorted(into.items()))
        done.shares[OVERFLOW] = tuple(sorted(weights.get(OVERFLOW, {OVERFLOW: 1}).items()))
        return done

    def rebuild(self) -> None:
        """Number the regions anew."""
        self.regions, self._by_groups, self._views = {}, {}, None
        for group in self.groups.values():
            group.regions, group.devices = (), self.overflow_devices
        for class_id in range(len(self.classes)):
            self._place(class_id)

    def _learn_atoms(self) -> None:
        wanted = {text: atom for group in self.groups.values() for text, atom in _atoms_of(group.requirement)}
        remembered = {text: atom for text, atom in self._atoms.items() if text not in wanted}
        self._atoms = remembered | wanted if len(remembered) + len(wanted) <= MOST_ATOMS else wanted
        self._by_name = any(isinstance(atom, Ids) for atom in self._atoms.values())

    def _class(self, device: DeviceId, capabilities: Capabilities) -> int:
        known = self._kinds.get(id(capabilities))
        if known is not None:
            return known[1]
        answers = tuple([atom.matches(device, capabilities) for atom in self._atoms.values()])
        class_id = self._index.get(answers, OVERFLOW)
        if class_id == OVERFLOW and len(self.classes) < self.most:
            if len(self._numbers) == len(self.classes):
                self._numbers.extend(range(len(self.classes), len(self.classes) + TOGETHER))
            class_id = self._index[answers] = self._numbers[len(self.classes)]
            self.classes.append(DeviceClass((device, capabilities)))
        if not self._by_name:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[id(capabilities)] = capabilities, class_id
        return class_id

    def _place(self, class_id: int) -> None:
        """Put a class into its region, a new one if it is the first there."""
        device, capabilities = self.classes[class_id].sample
        groups = [group for group in self.groups.values() if group.requirement.matches(device, capabilities)]
        signature = frozenset(group.id for group in groups)
        region = self._by_groups.get(signature)
        if region is None:
            region = Region(RegionId(len(self.regions)), signature)
            self.regions[region.id] = self._by_groups[signature] = region
            self._views = None
            for group in groups:
                group.regions += (region.id,)
        for group in groups:
            group.devices += self.classes[class_id].devices
        region.classes.append(class_id)
        self.classes[class_id].region = region.id


def _atoms_of(requirement: Requirement) -> list[tuple[str, Comparison | Ids]]:
    return [(str(leaf), leaf) for leaf in leaves(requirement) if not isinstance(leaf, AllDevices)]
