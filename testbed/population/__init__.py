"""Devices from fleets, and their shares of the data."""

from testbed.population.device import DeviceSpec, FleetSpec, read_population, write_population
from testbed.population.expand import expand

__all__ = ["DeviceSpec", "FleetSpec", "expand", "read_population", "write_population"]
