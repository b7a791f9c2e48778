"""A job under way: one object for threads and coroutines."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from dramatiq_handshake.routing import JobFailed, JobResult, PendingJob


def pending() -> tuple[PendingJob, Future[JobResult]]:
    future: Future[JobResult] = Future()
    return PendingJob("j", future), future


def test_a_thread_waits_for_the_result() -> None:
    job, future = pending()
    with pytest.raises(TimeoutError):
        job.result(timeout_ms=1)
    assert not job.done()
    future.set_result(JobResult("j", 42, "gpu-1"))

    assert job.result() == JobResult("j", 42, "gpu-1")
    assert job.exception() is None
    assert job.done()


def test_a_coroutine_awaits_it() -> None:
    async def main() -> JobResult:
        job, future = pending()
        asyncio.get_running_loop().call_later(0.001, future.set_result, JobResult("j", 42))
        return await job

    assert asyncio.run(main()).output == 42


def test_both_meet_the_error() -> None:
    job, future = pending()
    future.set_exception(JobFailed("j", "ValueError", "no"))

    async def main() -> None:
        await job

    with pytest.raises(JobFailed):
        job.result()
    with pytest.raises(JobFailed):
        asyncio.run(main())
    assert isinstance(job.exception(timeout_ms=0), JobFailed)


def test_who_gives_up_waiting_does_not_stop_the_job() -> None:
    job, future = pending()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(job, 0.001)

    asyncio.run(main())
    assert not future.cancelled()
    future.set_result(JobResult("j"))
    assert job.result().job_id == "j"


def test_a_callback_is_given_the_job_at_its_end_or_at_once() -> None:
    job, future = pending()
    called: list[PendingJob] = []
    job.add_done_callback(called.append)
    assert called == []
    future.set_result(JobResult("j"))
    job.add_done_callback(called.append)

    assert called == [job, job]


def test_a_job_that_has_ended_before_it_was_looked_at_is_done() -> None:
    future: Future[JobResult] = Future()
    future.set_result(JobResult("j"))
    assert PendingJob("j", future).done()
