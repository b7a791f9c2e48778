"""An asyncio program that fans work out over two worker processes, and gives up on what takes too long.

    python examples/routing_requests.py

Each request hashes the chunks of a document in parallel. One of them is cancelled by its deadline: the
signal reaches the handlers, and the workers are free for the next request.
"""

from __future__ import annotations

import asyncio
import hashlib

from dramatiq_handshake.routing import (
    CancelSignal,
    DispatchOptions,
    HandlerRegistry,
    InMemoryWorkerDirectory,
    Job,
    JobCancelled,
    JobContext,
    LeastActiveWorkerRouter,
    PendingJob,
    PooledWorkerGateway,
    WorkerProcess,
)

WORKERS = ("worker-1", "worker-2")


def fingerprint(context: JobContext) -> str:
    """Hash a chunk as often as asked: plain Python, which would block an event loop."""
    digest: bytes = context.params["chunk"].encode()
    for _ in range(context.params["rounds"]):
        context.raise_if_cancelled()
        digest = hashlib.sha256(digest).digest()
    return digest.hex()[:8]


def handlers() -> HandlerRegistry:
    """What a worker process runs; called there."""
    return HandlerRegistry({"fingerprint": fingerprint})


async def request(
    gateway: PooledWorkerGateway, name: str, chunks: list[str], *, rounds: int, deadline_s: float
) -> None:
    """Fingerprint all chunks within the deadline, or none."""
    signal = CancelSignal()
    timer = asyncio.get_running_loop().call_later(deadline_s, signal.cancel, "the deadline has passed")
    jobs = [
        gateway.dispatch(
            Job(
                f"{name}-{number}",
                name,
                f"{number}",
                "fingerprint",
                params={"chunk": chunk, "rounds": rounds},
            ),
            DispatchOptions(signal=signal),
        )
        for number, chunk in enumerate(chunks)
    ]
    try:
        results = await asyncio.gather(*(_result(job) for job in jobs))
    except JobCancelled as cancelled:
        print(f"{name}: gave up, {cancelled.reason}")
    else:
        print(f"{name}: {' '.join(results)}")
    finally:
        timer.cancel()
        # What was cancelled has ended before the next request begins.
        await asyncio.gather(*(_result(job) for job in jobs), return_exceptions=True)


async def _result(pending: PendingJob) -> str:
    return str((await pending).output)


def main() -> None:
    """Two requests with time enough, and one without."""
    directory = InMemoryWorkerDirectory(heartbeat_timeout_ms=5_000)
    workers = [WorkerProcess(worker_id, handlers) for worker_id in WORKERS]
    ports = [(worker.worker_id, worker.port) for worker in workers]
    with PooledWorkerGateway(directory, LeastActiveWorkerRouter(directory), ports) as gateway:
        gateway.wait_ready()
        asyncio.run(request(gateway, "first", ["a", "b", "c"], rounds=10, deadline_s=30))
        asyncio.run(request(gateway, "hopeless", ["d", "e"], rounds=10**12, deadline_s=0.2))
        asyncio.run(request(gateway, "second", ["a", "f"], rounds=10, deadline_s=30))
    for worker in workers:
        worker.stop()
    print("exit codes:", [worker.exit_code for worker in workers])


if __name__ == "__main__":
    main()
