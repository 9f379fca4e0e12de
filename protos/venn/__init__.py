"""The wire: generated stubs in ``venn.v1``, what every side shares in ``venn.wire``."""

import os

# gRPC's fork handlers restart its threads in every child that a process starts, and now and then crash it there (seen
# with uvloop, which forks, and grpcio 1.85). We only ever start other programs, which need none of it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
