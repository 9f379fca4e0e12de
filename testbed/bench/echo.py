"""The baseline: a bare grpc.aio server in a process of its own, without protobuf, that echoes or streams bytes.

``python -m testbed.bench.echo`` prints its address and serves until its standard input ends.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from venn.wire.channel import bind, server_options

ECHO = "/bench.Bare/Echo"
DOWN = "/bench.Bare/Down"
UP = "/bench.Bare/Up"
CHUNK_BYTES = 512 * 1024


async def _echo(
    requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    async for message in requests:
        yield message


async def _down(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
    """So many bytes as the request says, in chunks."""
    left, chunk = int(request), bytes(CHUNK_BYTES)
    while left > 0:
        yield chunk if left >= CHUNK_BYTES else chunk[:left]
        left -= CHUNK_BYTES


async def _up(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    total = 0
    async for message in requests:
        total += len(message)
    return str(total).encode()


async def serve() -> None:
    server = grpc.aio.server(options=server_options())
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Echo": grpc.stream_stream_rpc_method_handler(_echo),
        "Down": grpc.unary_stream_rpc_method_handler(_down),
        "Up": grpc.stream_unary_rpc_method_handler(_up),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Bare", handlers),))
    address = bind(server, "127.0.0.1:0", insecure=False)
    await server.start()
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)


@asynccontextmanager
async def bare_server() -> AsyncIterator[str]:
    """Its address, while it runs in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "testbed.bench.echo", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    from venn.wire.command import run_async

    raise SystemExit(run_async(serve()))
