"""The columns of the kernel's tables, and the places of its single numbers.

-1 stands for none. Sessions and leases are in slots that are used again, so whoever keeps a slot keeps its number
(SEQ) as well and compares. Times are seconds of engine time.
"""

from coordinator.engine.model import LeaseEnd

NONE = -1

# Numbers of the run.
(
    PHASE,  # what the kernel does next
    ROW,  # next row of the block
    ROWS,  # of the block
    TRACE_OVER,  # no block is to come
    CHECK_INS,  # so far; also the session of the last one
    LEASES,  # granted
    REQUESTS,  # opened
    PLANS,  # made; also the one whose tables these are
    UNIFORM,  # its mode
    QUEUES,  # of it
    DIRTY,  # its inputs have changed
    VACANT,  # a full asynchronous request has a place again: devices that wait are matched, by the same plan
    SWEEP,  # through the devices that wait: changes with each
    WAITING,  # idle sessions that are to wait
    PRESENT,  # open sessions
    LIVE,  # leases
    REGROUP,  # regions were numbered anew
    UNFINISHED,  # jobs
    ARRIVED,  # jobs
    LOGGED,  # attempts that ended
    HEAP,  # entries
    FREE_SESSION,  # first of the free slots
    FREE_LEASE,
    FRESH,  # sessions that became matchable in this event
    FRESH_DONE,  # of them, looked at
    SAID,  # reactions that were said in this instant
    HEARD,  # of them
    FINISHED,  # session (slot) whose device says that it has finished, once all reactions are heard
    SUBJECT,  # what a code that ``run`` returns is about: a job, a kind
    AT_CHECK_IN,  # matching
    DAILY,  # some devices have a limit per day
    PLANNER,  # of the kernel; NONE: plans are made outside
    TIERS,  # of devices; 1: nobody asks for them
    CUTS,  # between tiers, so far: none, or TIERS - 1
    SCARCITY,  # parameters of venn-plus
    NEARNESS,
    COLLECTING,
    SPARES,  # what is done with spare places: index into ``Spares``
    AIMED,  # plans name targets
    OR_FASTER,  # whoever is for a tier takes faster devices, too
    BY_REQUEST,  # parameters of venn: order within a group, the published rule for tiers
    PAPER,
    PROFILED,  # somebody asks for response times
    ROWS_OF_JOBS,  # jobs
    UNSUPPLIED,  # Venn: merged groups without supply; they come first
    MERGED,  # Venn: merged groups
    COUNTED,  # leases ended, by reason
    STRAGGLER,
    LOST,
    EXPIRED,
    REVOKED,
    NUMBERS,
) = range(52)
NOW, DUE, TICK, REVIEW, NEXT_ARRIVAL, UNTIL, SPAN_S, FAIRNESS, REALS = range(
    9
)  # DUE: nothing of the jobs and leases is due before
DIGEST, MATCH_DRAW, NOISE_DRAW, ORDER_DRAW, TIER_DRAW, BITS = range(6)  # the draws: seed and purpose mixed in

# Of a job.
(
    J_GROUP,
    J_NEEDED,  # K
    J_PLACES,  # C
    J_ROUNDS,  # until it ends
    J_KNOWN,  # rounds that the scheduler knows of
    J_REVOKES,  # its stragglers
    J_OPEN,  # has an open request
    J_REQUEST,  # the latest
    J_ROUND,
    J_ATTEMPT,
    J_PLACED,  # live leases with a place
    J_RESPONSES,  # counted
    J_LIVE,  # leases of all its attempts
    J_HEAD,  # first of them, by number
    J_TAIL,
    J_TARGET,  # places, of the latest request by the present plan; C where it names none
    J_RANK,  # among all jobs, by a draw for each
    J_TIER,  # of the latest request
    J_ASYNCHRONOUS,  # its rounds overlap: one request for all of them
    J_SIZE,  # places of a round in plans: C, asynchronously K
    J_HELD,  # asynchronously: responses counted in the present round, in place of J_RESPONSES
    J_OFFERED,  # the latest round that its driver opened: the leases of an asynchronous job are granted under it
    J_STALENESS,  # in rounds: an older response is a straggler
    J_USED,  # first row of its table of devices that count in the round on offer
    J_MASK,  # rows of it less 1, which are a power of 2; NONE: it has none, for devices may count again and again
    J_STAMP,  # of the round on offer, see ``kernel_once``: changes with each, and with each attempt
    J_TABLED,  # 1: there are devices of that round in its table
    J_COLUMNS,
) = range(28)
(
    JR_ARRIVAL,
    JR_DEADLINE_S,
    JR_LEASE_S,
    JR_COMPUTE_S,
    JR_BYTES,
    JR_OPENED,  # the request
    JR_BEGUN,  # its present round
    JR_DEADLINE,  # of the open request; inf: none is open
    JR_FILLED,  # NaN: not yet
    JR_ATTAINED,  # device-seconds of ended leases
    JR_GRANTED_SUM,  # over live leases
    JR_COUNTED_S,  # device-seconds of the open attempt's responses
    JR_USEFUL_S,  # device-seconds in closed rounds
    JR_ENDED,
    JR_COLUMNS,
) = range(15)
# Of a lease, an open session, a device. A free slot has SEQ 0 and the next one in NEXT.
(
    L_SEQ,
    L_NEXT,
    L_PREVIOUS,
    L_JOB,
    L_REQUEST,
    L_SESSION,  # NONE: absent
    L_DEVICE,
    L_CHOSEN,  # its request is or was for one tier
    L_COLUMNS,
) = range(9)
(
    S_SEQ,
    S_NEXT,
    S_DEVICE,
    S_KIND,
    S_TIER,
    S_LEASE,
    S_DRAWS,  # how often it was matched by chance
    S_WAITS,
    S_CHILD,
    S_SIBLING,
    S_PREVIOUS,
    S_COLUMNS,
) = range(12)
SR_END, SR_SLOW, SR_BYTE_S, SR_COLUMNS = range(4)
# D_TODAY: the day and the tasks in it, see ``kernel_limits``. D_ROUND: that its latest lease was for, see
# ``kernel_once``; 0: none that counts.
D_FIRST, D_KIND, D_INTERVAL, D_CHECK_INS, D_TASKS, D_TODAY, D_LEASE, D_ROUND, D_COLUMNS = range(9)
# Of a kind of devices; from K_COUNTS on check-ins that the supply has not been told of, without a tier, then by tier.
K_CELL, K_PER_SESSION, K_PER_DAY, K_COUNTS = range(4)
# Of a cell: the devices of one region and one tier; first those without a tier, and so all of them if nobody asks for
# tiers. From R_GROUPS on whether it can serve each group.
# R_LIST: how many candidates are listed, for plan R_LISTED. R_DRY: the sweep that had nothing left for it.
R_POOL, R_OWNER, R_DRY, R_LISTED, R_LIST, R_GROUPS = range(6)
A_JOB, A_ROUND, A_ATTEMPT, A_CLOSED, A_COUNTED, A_COLUMNS = range(6)
AR_OPENED, AR_FILLED, AR_ENDED, AR_COLUMNS = range(4)
H_CODE, H_SLOT, H_COLUMNS = range(3)
U_DEVICE, U_STAMP, U_COLUMNS = range(3)  # of a device that counts in a round, see ``kernel_once``
# Of a profile of response times (job; all tiers, then each, then places): as ``coordinator.engine.profiles``.
P_TOTAL, P_AT, P_UPTO, P_PERCENT, P_COUNTS = range(5)

ENDS = {  # where leases that ended so are counted; in a simulation none ends otherwise
    LeaseEnd.COUNTED: COUNTED,
    LeaseEnd.STRAGGLER: STRAGGLER,
    LeaseEnd.LOST: LOST,
    LeaseEnd.EXPIRED: EXPIRED,
    LeaseEnd.REVOKED: REVOKED,
}

NEXT, SETTLE, REPLAN, MATCH = range(4)  # phases
# Codes: what is wanted.
(
    GO_ON,  # nothing
    MORE_ROWS,  # the next block, or word that there is none
    MORE_SLOTS,
    MORE_LOG,  # room for attempts that end
    NEW_KIND,  # devices of the kind SUBJECT have not been seen since the regions were cut
    TICKED,  # the supply is to be published
    ARRIVES,  # job SUBJECT
    LEAVES,  # job SUBJECT: it has ended
    PLAN_WANTED,
    OVER,
) = range(10)
