"""Work that fails because its session has ended raises the reason, and not an exception group."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from broker_ctl.errors import ConnectionLoss, SessionExpired, StoreClosed, StoreError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import Party, parties
from tests.support.time.waiting import eventually

ENDS: dict[str, Callable[[Party], object]] = {
    "expired": lambda one: one.expire(),
    "closed": lambda one: one.store.give_up(StoreClosed("the store is closed")),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("error", [SessionExpired("gone"), ConnectionLoss("cut"), StoreClosed("x")])
@in_virtual_time
async def test_work_that_fails_with_its_session_is_logged_by_its_reason(
    end: str, error: StoreError, caplog: pytest.LogCaptureFixture
) -> None:
    async with parties() as (one,):
        began: list[int] = []

        async def fail_at_the_end() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError as cancelled:
                raise error from cancelled

        async def work(epoch: int) -> None:
            began.append(epoch)
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_at_the_end(), name="fails")

        with caplog.at_level(logging.INFO):
            async with TaskScope("test") as scope:
                running = scope.start(one.watcher.run_epochs(work), "epochs")
                await eventually(lambda: began == [1])
                ENDS[end](one)
                await eventually(lambda: running.done() or began == [1, 2])
        assert f"session 1: {error}" in caplog.messages
        assert "TaskGroup" not in caplog.text
