"""The baseline: a bare grpc.aio server in a process of its own, without protobuf, that answers or streams bytes.

``python -m testbed.bench.loads.echo`` prints its address and serves until its standard input ends. With ``--large``
it reuses freed memory as a driver does, or large messages up would cost it a quarter more, in page faults alone.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from venn.wire.channel import bind, server_options

TURNS = "/bench.Bare/Turns"
DOWN = "/bench.Bare/Down"
UP = "/bench.Bare/Up"
CHUNK_BYTES = 512 * 1024
LARGE = "--large"


async def _turns(
    requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
) -> AsyncIterator[bytes]:
    """The first message says how many bytes an answer has; after it, each second message is answered."""
    answer, taken = b"", -1
    async for message in requests:
        if taken < 0:
            answer = bytes(int(message))
        elif taken % 2:
            yield answer
        taken += 1


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


def server() -> grpc.aio.Server:
    """Not bound or started yet."""
    made = grpc.aio.server(options=server_options())
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
async def bare_server(*flags: str) -> AsyncIterator[str]:
    """Its address, while it runs in a process of its own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "testbed.bench.loads.echo", *flags, stdin=pipe, stdout=pipe
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
    from venn.wire.memory import reuse_freed_memory

    if LARGE in sys.argv:
        reuse_freed_memory()
    raise SystemExit(run_async(serve()))
