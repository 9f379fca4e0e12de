"""The baseline: a bare grpc.aio server in a process of its own, without protobuf, that answers or streams bytes.

``python -m testbed.bench.bare`` prints its address and serves until its standard input ends. With ``--large``
it reuses freed memory as a driver does, or large messages up would cost it a quarter more, in page faults alone.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from venn.wire.bounds import ServerBounds
from venn.wire.channel import bind, channel_options, server_options
from venn.wire.command import run_async
from venn.wire.process import reuse_freed_memory

TURNS = "/bench.Bare/Turns"
DOWN = "/bench.Bare/Down"
UP = "/bench.Bare/Up"
CHUNK_BYTES = 512 * 1024
LARGE = "--large"


async def _turns(
    requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    """Answer each second message with as many bytes as the first message says."""
    answer, taken = b"", -1
    async for message in requests:
        if taken < 0:
            answer = bytes(int(message))
        elif taken % 2:
            yield answer
        taken += 1


async def _down(request: bytes, context: object) -> AsyncIterator[bytes]:
    """Stream so many bytes as the request says, in chunks."""
    left, chunk = int(request), bytes(CHUNK_BYTES)
    while left > 0:
        yield chunk if left >= CHUNK_BYTES else chunk[:left]
        left -= CHUNK_BYTES


async def _up(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    total = 0
    async for message in requests:
        total += len(message)
    return str(total).encode()


async def move_down(channel: grpc.aio.Channel, count: int) -> None:
    """Fetch ``count`` bytes."""
    call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(DOWN)
    async for _ in call(str(count).encode()):
        pass


async def move_up(channel: grpc.aio.Channel, count: int) -> None:
    """Send ``count`` bytes."""
    call: grpc.aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary(UP)()
    async for chunk in _down(str(count).encode(), None):
        await call.write(chunk)
    await call.done_writing()
    await call


def server() -> grpc.aio.Server:
    """A bare server, not bound or started yet."""
    made = grpc.aio.server(options=server_options(ServerBounds()))
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Turns": grpc.stream_stream_rpc_method_handler(_turns),
        "Down": grpc.unary_stream_rpc_method_handler(_down),
        "Up": grpc.stream_unary_rpc_method_handler(_up),
    }
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Bare", handlers),))
    return made


async def serve() -> None:
    serving = server()
    address = bind(serving, "127.0.0.1:0", insecure=False)
    await serving.start()
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await serving.stop(0)


@asynccontextmanager
async def bare_channels(count: int, *flags: str) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Channels to a server that runs in a process of its own meanwhile."""
    async with bare_server(*flags) as address:
        channels = [grpc.aio.insecure_channel(address, options=channel_options()) for _ in range(count)]
        yield channels
        for channel in channels:
            await channel.close()


@asynccontextmanager
async def bare_server(*flags: str) -> AsyncIterator[str]:
    """Run a server in a process of its own and give its address."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "testbed.bench.bare", *flags, stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    if LARGE in sys.argv:
        reuse_freed_memory()
    raise SystemExit(run_async(serve()))
