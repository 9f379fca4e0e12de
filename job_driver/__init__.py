"""What a job file imports. It runs on devices too, so this loads NumPy and the standard library and nothing else."""

from job_driver.job import (
    Aggregator,
    Arrays,
    Job,
    Result,
    Revoked,
    Round,
    Sum,
    Task,
    WeightedMean,
    arrays,
)

__all__ = ["Aggregator", "Arrays", "Job", "Result", "Revoked", "Round", "Sum", "Task", "WeightedMean", "arrays"]
