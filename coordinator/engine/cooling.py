"""Cooling: a (device, job) pair gets no lease for a time, after failures and after places that were held in vain.

It lasts min(1 h, 30 s x 2^n), n the failures of the pair since its last response (docs/protocol.md, "Leases"). A device
that accepts and never delivers fails as well. The time for which it holds places of the job without a response is
summed up, until it has held none for an hour. Once that is more than ``vain_leases`` leases last, each further place
that it gives back is a failure. Time does not count while the driver is away, for nobody can deliver then.
"""

from dataclasses import replace

from coordinator.engine.lifecycle import DeviceState
from coordinator.engine.model import LeaseEnd
from coordinator.engine.state import Cooling, Device, Job, Lease
from coordinator.engine.world import World

_MOST_DOUBLINGS = 30  # beyond it a longer cooling is over any bound
_NONE = Cooling(0.0, 0)
# Whoever let a lease end so has brought nothing, and has not said so.
IN_VAIN = frozenset({LeaseEnd.UNACCEPTED, LeaseEnd.EXPIRED, LeaseEnd.LOST, LeaseEnd.REVOKED, LeaseEnd.REPLACED})


def cool(world: World, device: Device, job: Job, wait_s: float = 0.0) -> None:
    """Note a failure of the pair, which cools. ``wait_s`` > 0: as long as the device asked for."""
    settings = world.settings
    before = device.cooling.get(job.id)
    failures = before.failures if before is not None else 0
    wait_s = wait_s or min(settings.cooling_most_s, settings.cooling_first_s * 2 ** min(failures, _MOST_DOUBLINGS))
    note = replace(before or _NONE, until=world.now + wait_s, failures=failures + 1)
    device.cooling = {**device.cooling, job.id: note}
    device.history.append((world.now, "COOLING", f"for {job.id}, {wait_s:g} s"))
    if device.session and device.state is DeviceState.IDLE:  # it was freed before: look again when this is over
        world.fresh.append(device.session)


def hold_in_vain(world: World, lease: Lease) -> None:
    """Sum up for how long the device has held the place that the lease gives back without a response."""
    device, job = lease.device, lease.request.job
    held_s = world.now - lease.placed_at - lease.extended_s
    if held_s <= 0.0 or lease.receipt is not None or not job.followed:
        return
    before, settings = device.cooling.get(job.id, _NONE), world.settings
    long_ago = lease.placed_at - max(before.vain_at, before.until) > settings.cooling_most_s
    vain_s = held_s if long_ago else before.vain_s + held_s
    device.cooling = {**device.cooling, job.id: replace(before, vain_s=vain_s, vain_at=world.now)}
    if vain_s > settings.vain_leases * job.spec.lease_s:
        cool(world, device, job)


def end_cooling(world: World, device: Device, job: Job) -> None:
    """Forget the failures of the pair: it has brought a response."""
    if job.id not in device.cooling:
        return
    device.cooling = {id_: one for id_, one in device.cooling.items() if id_ != job.id}
    if device.session and device.state is DeviceState.IDLE:
        world.fresh.append(device.session)
