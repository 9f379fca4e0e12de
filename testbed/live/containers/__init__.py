"""The parts of a run as containers: a Compose project, made from the scenario, and the Docker SDK for all else."""
