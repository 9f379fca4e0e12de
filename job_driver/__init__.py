"""The names that a job file imports. It runs on devices too, so this loads only NumPy and the standard library."""

from job_driver.job import Aggregator, Arrays, Job, Result, Revoked, Round, Sum, Task, WeightedMean, arrays

__all__ = ["Aggregator", "Arrays", "Job", "Result", "Revoked", "Round", "Sum", "Task", "WeightedMean", "arrays"]
