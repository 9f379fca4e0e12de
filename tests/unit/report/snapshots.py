"""A snapshot like the one in the product's screen."""

from google.protobuf.duration_pb2 import Duration

from venn.v1.admin_pb2 import DeviceCounts, HostStatus, LeaseCounts, LogEntry, RegionStatus, Snapshot
from venn.v1.common_pb2 import JobKey
from venn.v1.job_pb2 import JobPhase, JobStatus, RoundMetrics


def history(*values: float) -> list[RoundMetrics]:
    return [RoundMetrics(round=index, metrics={"accuracy": value}) for index, value in enumerate(values, start=1)]


def snapshot() -> Snapshot:
    collecting, filling = JobPhase.JOB_PHASE_COLLECTING, JobPhase.JOB_PHASE_FILLING
    jobs = [
        JobStatus(
            key=JobKey(owner="me", name="handwriting", run="1"),
            requirement="any",
            phase=collecting,
            round=10,
            rounds=18,
            places=20,
            leased=20,
            responses=13,
            responses_needed=16,
            history=history(0.5, 0.6, 0.7, 0.75, 0.8, 0.83, 0.86, 0.87, 0.889),
        ),
        JobStatus(
            key=JobKey(owner="me", name="tablet-pen", run="1"),
            requirement="roomy",
            phase=filling,
            round=8,
            rounds=15,
            places=16,
            leased=10,
            responses=2,
            responses_needed=13,
            aborts=1,
            history=history(0.5, 0.6, 0.7, 0.8, 0.84, 0.86, 0.871),
        ),
        JobStatus(
            key=JobKey(owner="me", name="label-count", run="1"),
            requirement="powerful",
            phase=filling,
            round=6,
            rounds=8,
            places=12,
            leased=3,
            responses_needed=8,
            waits="9 places open; no further eligible device present; 2.0 check-ins per second",
        ),
    ]
    regions = [
        RegionStatus(groups=["any"], devices=48, check_ins_per_s=4.0, waiting=6, order=["handwriting"]),
        RegionStatus(groups=["any", "roomy"], devices=32, check_ins_per_s=2.7, order=["tablet-pen", "handwriting"]),
        RegionStatus(
            groups=["any", "roomy", "powerful"],
            devices=24,
            check_ins_per_s=2.0,
            order=["label-count", "tablet-pen", "handwriting"],
        ),
    ]
    log = [
        LogEntry(
            at=Duration(seconds=46), kind="LOST", text="flagship-07 in label-count round 6, its place went to bench-02"
        ),
        LogEntry(at=Duration(seconds=41), kind="ABORT", text="tablet-pen round 7: 11 of 13 responses; opened again"),
        LogEntry(at=Duration(seconds=39), kind="FAILED", text="midrange-19: ValueError: x has 0 rows\x1b[31m\nrm -rf"),
    ]
    return Snapshot(
        name="three-jobs",
        policy="venn",
        seed=7,
        elapsed=Duration(seconds=47),
        jobs=jobs,
        devices=DeviceCounts(known=104, waiting=6, busy=18, served=45, gone=35),
        regions=regions,
        leases=LeaseCounts(granted=412, responses=331, stragglers=19, lost=38, failed=2, expired=4, revoked=0, live=18),
        host=HostStatus(
            cpu_fraction=0.61,
            memory_used_bytes=2254857830,
            memory_total_bytes=24 * 2**30,
            loop_lag_p99=Duration(nanos=3_000_000),
        ),
        log=log,
    )
