"""The records of the compiled loop's tables, and the codes that it works with.

A record is read as ``t.jobs[row].placed`` and a whole column as ``t.jobs["placed"]``, compiled or not. -1 stands for
none. Sessions and leases are in slots that are used again, so whoever keeps a slot keeps its number (``seq``) as well
and compares. Times are seconds of engine time. A field that says yes or no is 1 or 0.
"""

import numpy as np

from coordinator.engine.model import LeaseEnd
from coordinator.engine.plan import Collecting, Requests
from coordinator.engine.scale import BINS

NONE = -1
WORDS = 3  # that tell compiled code of a table: its address, and its shape
_Bits, _Slot = np.uint64, np.int32  # there are never so many slots, jobs and kinds


def _record(**fields: object) -> np.dtype[np.void]:
    return np.dtype((np.record, np.dtype(list(fields.items()), align=True)))


RUN = _record(  # what there is one of
    now=float,
    due=float,  # nothing of the jobs and leases is due before
    tick=float,  # of the supply, the next one
    review=float,  # of the plan
    wake=float,  # when somebody cools no more
    next_arrival=float,  # of a job
    until=float,
    phase=int,  # what the loop does next
    row=int,  # next row of the block
    rows=int,  # of the block
    trace_over=int,  # no block is to come
    check_ins=int,  # so far; also the session of the last one
    leases=int,  # granted
    requests=int,  # opened
    plans=int,  # made; also the one whose tables these are
    uniform=int,  # its mode
    queues=int,  # of it
    asking=int,  # requests that it saw, and ...
    again=int,  # ... jobs in collection, if it asked for them
    dirty=int,  # its inputs have changed
    vacant=int,  # a full asynchronous request has a place again: devices that wait are matched, by the same plan
    sweep=int,  # through the devices that wait: changes with each
    waiting=int,  # idle sessions that are to wait
    present=int,  # open sessions
    live=int,  # leases
    regroup=int,  # regions were numbered anew
    unfinished=int,  # jobs
    arrived=int,  # jobs
    logged=int,  # attempts that ended
    heap=int,  # events to come
    free_session=int,  # first of the free slots
    free_lease=int,
    fresh=int,  # sessions that became matchable in this event
    fresh_done=int,  # of them, looked at
    said=int,  # reactions that were said in this instant
    heard=int,  # of them
    vains=int,  # rows of the table of places held in vain that are taken
    finished=int,  # session (slot) whose device says that it has finished, once all reactions are heard
    subject=int,  # what a code that the loop returns is about: a job, a kind
    at_check_in=int,  # matching
    daily=int,  # some devices have a limit per day
    tiers=int,  # of devices; 1: nobody asks for them
    cuts=int,  # between tiers, so far: none, or tiers - 1
    profiled=int,  # somebody asks for response times
    planner=int,  # of the loop; NONE: plans are made outside
    spares=int,  # what is done with spare places: index into ``Spares``
    aimed=int,  # plans name targets
    or_faster=int,  # whoever is for a tier takes faster devices, too
    scarcity=int,  # parameters of venn-plus
    nearness=int,
    collecting=int,
    by_request=int,  # parameters of venn: order within a group, the published rule for tiers, fairness
    paper=int,
    fairness=float,
    span_s=float,  # that the supply covers
    vain_leases=float,  # settings of the engine
    cooling_first_s=float,
    cooling_most_s=float,
    unsupplied=int,  # Venn: merged groups without supply; they come first
    merged=int,  # Venn: merged groups
    digest=_Bits,
    match_draw=_Bits,  # seed and purpose mixed
    noise_draw=_Bits,
    order_draw=_Bits,
    job_order_draw=_Bits,
    tier_draw=_Bits,
)
JOB = _record(  # what a look-up reads comes first, side by side
    places=int,  # C
    placed=int,  # live leases with a place
    responses=int,  # counted
    open=int,  # has an open request
    mask=int,  # rows of it less 1, which are a power of 2; NONE: it has none, for devices may count again and again
    stamp=int,  # of the round on offer, see ``kernel_match``: changes with each, and with each attempt
    tabled=int,  # there are devices of that round in its table
    group=int,
    needed=int,  # K
    rounds=int,  # until it ends
    known=int,  # rounds that the scheduler knows of
    revokes=int,  # its stragglers
    request=int,  # the latest
    round_no=int,
    attempt=int,
    live=int,  # leases of all its attempts
    head=int,  # first of them, by number
    tail=int,
    target=int,  # places, of the latest request by the present plan; C where it names none
    draws_by=_Bits,  # what stands for it in draws
    tier=int,  # of the latest request
    asynchronous=int,  # its rounds overlap: one request for all of them
    plan_places=int,  # of a round in plans: C, asynchronously K
    held=int,  # asynchronously: responses counted in the present round, in place of ``responses``
    offered=int,  # the latest round that its driver opened: the leases of an asynchronous job are granted under it
    staleness=int,  # in rounds: an older response is a straggler
    used=int,  # first row of its table of devices that count in the round on offer
    arrival=float,
    deadline_s=float,
    lease_s=float,
    compute_s=float,
    bytes=float,
    opened=float,  # the request
    begun=float,  # its present round
    deadline=float,  # of the open request; inf: none is open
    filled=float,  # NaN: not yet
    attained=float,  # device-seconds of ended leases
    granted_sum=float,  # over live leases
    counted_s=float,  # device-seconds of the open attempt's responses
    useful_s=float,  # device-seconds in closed rounds
    ended=float,
)
LEASE = _record(  # as few lines of the processor's cache as it takes, and so for sessions
    seq=int,  # 0: the slot is free
    request=int,
    device_no=int,
    granted=float,
    given=int,  # of an asynchronous job: the round whose model it works on
    next=_Slot,  # of its job, or free slot
    previous=_Slot,
    job=_Slot,
    session=_Slot,  # NONE: absent
    chosen=np.int8,  # its request is or was for one tier
)
SESSION = _record(  # an open one
    seq=int,  # 0: the slot is free
    device_no=int,
    end=float,
    slow=float,
    byte_s=float,
    next=_Slot,  # free slot
    kind=_Slot,
    lease=_Slot,
    draws=_Slot,  # how often it was matched by chance
    child=_Slot,  # in the heap of those that wait
    sibling=_Slot,
    previous=_Slot,
    tier=np.int8,
    waits=np.int8,
)
DEVICE = _record(  # a line of the processor's cache
    first=int,  # session, 0: none yet
    interval=int,
    check_ins=int,
    tasks=int,
    today=int,  # the day and the tasks in it, see ``kernel_match``
    counts_in=int,  # the round that its latest lease was for, see ``kernel_match``; 0: none that counts
    kind=_Slot,
    lease=_Slot,
    vain=_Slot,  # jobs of which it holds places in vain, see ``kernel_cooling``
)
KIND = _record(cell=int, per_session=int, per_day=int)
CELL = _record(  # the devices of one region and one tier; first those without a tier, and so all if there are none
    pool=int,  # the first that waits
    owner=int,  # queue that they try first
    dry=int,  # the sweep that had nothing left for it
    listed=int,  # the plan for which candidates are listed, and ...
    count=int,  # ... how many
)
ATTEMPT = _record(job=int, round_no=int, attempt=int, closed=int, counted=int, opened=float, filled=float, ended=float)
# What a policy sees; a group is its number among all groups.
REQUEST, COLLECTING = (_record(**{name: one.kind for name, one in of.columns.items()}) for of in (Requests, Collecting))
COMING = _record(at=float, code=int, slot=int)  # an event
REACTION = _record(what=int, subject=int, number=int)
GROUND = _record(supply=int, owner=int)  # of a region, and the scarcest contender that can use it
USED = _record(device_no=int, stamp=int)  # a device that counts in a round, see ``kernel_match``
VAIN = _record(  # a device and a job whose places it holds in vain, see ``kernel_cooling``
    device_no=int,  # NONE: the row is free
    job=int,
    until=float,  # it gets no lease of the job before
    held=float,  # for how long, since its last response, without a long break
    at=float,  # when it gave back the last of these
    failures=int,
)
# A profile of response times (job; all tiers, then each, then places): as ``coordinator.engine.profiles``.
PROFILE = _record(total=int, at=int, upto=int, percent=int, counts=np.dtype((int, BINS)))

ENDS = {  # where leases that ended so are counted; in a simulation none ends otherwise
    end: place
    for place, end in enumerate(
        (LeaseEnd.COUNTED, LeaseEnd.STRAGGLER, LeaseEnd.LOST, LeaseEnd.EXPIRED, LeaseEnd.REVOKED)
    )
}
COUNTED, STRAGGLER, LOST, EXPIRED, REVOKED = range(5)

NEXT, SETTLE, REPLAN, MATCH = range(4)  # phases
# Codes: what is wanted.
(
    GO_ON,  # nothing
    MORE_ROWS,  # the next block, or word that there is none
    MORE_SLOTS,
    MORE_LOG,  # room for attempts that end
    NEW_KIND,  # devices of the kind ``subject`` have not been seen since the regions were cut
    TICKED,  # the supply is to be published
    ARRIVES,  # job ``subject``
    LEAVES,  # job ``subject``: it has ended
    PLAN_WANTED,
    OVER,
) = range(10)
