"""Devices in bags: any of a bag is drawn, and any is put from one bag into another, in no time."""

from array import array

import numpy as np
from numpy.typing import NDArray


class Bags:
    """Of devices by number. Each is in one bag, or in none for ever."""

    def __init__(self, bag: NDArray[np.uint8], bags: int) -> None:
        """``bag``: of each device, below ``bags``; or ``bags``, if it is in none."""
        self._none = bags
        self._bag = array("B", bag.tobytes())
        place = np.zeros(len(bag), np.int32)
        self._devices: list[array[int]] = []
        for number in range(bags):
            inside = np.flatnonzero(bag == number).astype(np.int32)
            place[inside] = np.arange(len(inside), dtype=np.int32)
            self._devices.append(array("i", inside.tobytes()))
        self._place = array("i", place.tobytes())  # of each device in its bag

    def size(self, bag: int) -> int:
        """How many are in it."""
        return len(self._devices[bag])

    def draw(self, bag: int, chance: float) -> int:
        """One of them, which stays there; ``chance``: uniform in [0, 1)."""
        devices = self._devices[bag]
        return devices[int(chance * len(devices))]

    def put(self, device: int, bag: int) -> None:
        """Into another bag, or into the one where it is."""
        before = self._bag[device]
        if before in (bag, self._none):
            return
        left, place = self._devices[before], self._place[device]
        last = left.pop()
        if last != device:
            left[place] = last
            self._place[last] = place
        self._bag[device] = bag
        self._place[device] = len(self._devices[bag])
        self._devices[bag].append(device)
