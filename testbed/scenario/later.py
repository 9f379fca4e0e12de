"""Keys that the project knows and that have no effect yet: refused, so that nobody believes in them."""

_LIMIT = "no limit is enforced yet"
_ASYNCHRONOUS = "jobs are synchronous for now"

# By the kind of mapping that has the key.
LATER: dict[str, dict[str, str]] = {
    "scenario": {"churn": "a timeline comes with a later version; sessions and crashes are in every_device"},
    "job": {
        "aggregation": _ASYNCHRONOUS,
        "asynchronous": _ASYNCHRONOUS,
        "buffer": _ASYNCHRONOUS,
        "concurrency": _ASYNCHRONOUS,
    },
    "workload": {
        "download": "bytes are not modelled yet",
        "upload": "bytes are not modelled yet",
        "download_bytes": "bytes are not modelled yet",
        "upload_bytes": "bytes are not modelled yet",
    },
    "fleet": {
        "cores": _LIMIT,
        "memory_limit": _LIMIT,
        "up": _LIMIT,
        "down": _LIMIT,
        "delay": _LIMIT,
        "latency": _LIMIT,
        "jitter": _LIMIT,
        "loss": _LIMIT,
        "profile": "there are no device profiles yet; give cpu and memory",
        "trace": "traces in a scenario come with a later version; give session and gap, or `venn agent --trace`",
    },
}
