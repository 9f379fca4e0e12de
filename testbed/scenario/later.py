"""Keys that the project knows and that have no effect yet: refused, so that nobody believes in them."""

_ASYNCHRONOUS = "a job is asynchronous with buffer: N, and its demand is its concurrency"

# By the kind of mapping that has the key.
LATER: dict[str, dict[str, str]] = {
    "job": {
        "aggregation": _ASYNCHRONOUS,
        "asynchronous": _ASYNCHRONOUS,
        "concurrency": _ASYNCHRONOUS,
    },
    "fleet": {
        "latency": "a round trip takes longer by delay: 50ms",
    },
}
