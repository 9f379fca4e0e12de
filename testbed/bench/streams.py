"""The barest device that a coordinator accepts: a stream that checks in."""

import secrets

from venn.v1 import device_pb2 as device
from venn.wire.versions import this_version


def check_in(name: str) -> device.ConnectRequest:
    frame = device.CheckIn(device=name, instance=secrets.token_bytes(16), version=this_version(), interval=1)
    frame.capabilities.numbers["cpu"] = 4.0
    frame.capabilities.numbers["memory"] = 4e9
    return device.ConnectRequest(seq=1, check_in=frame)
