"""The end of serving, and its return, in the log."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from broker_ctl.broker.ownership.reacquire import ServingLog
from broker_ctl.coordination.session import AuthorityMode
from broker_ctl.core.machines.session import SessionState
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.sessions import Party
from tests.support.time.waiting import eventually

Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    def messages() -> list[str]:
        name = "broker_ctl.broker.ownership.reacquire"
        return [
            record.getMessage()
            for record in caplog.records
            if record.name == name and record.levelno == logging.WARNING
        ]

    return messages


@asynccontextmanager
async def serving(bundles: int, mode: AuthorityMode) -> AsyncIterator[Party]:
    party = Party(MemoryEnsemble(), mode=mode)
    party.watcher.listen(ServingLog(party.watcher, lambda: range(bundles)).on_session_action)
    await party.start()
    try:
        yield party
    finally:
        await party.close()


@in_virtual_time
async def test_the_end_of_the_lease_says_how_many_bundles_are_not_served_any_more(
    warnings: Warnings,
) -> None:
    async with serving(12, AuthorityMode.LEASE) as party:
        party.store.disconnect()
        await eventually(lambda: party.watcher.state is SessionState.LOST, deadline_s=20.0)
        (message,) = warnings()
        assert "session 1 is lost and the lease has ended: 12 bundles are not served" in message
        party.store.reconnect()
        await eventually(lambda: len(warnings()) > 1, deadline_s=20.0)
        back = "acquiring 12 bundles again, as far as no other broker has them"
        assert warnings()[1:] == [f"the session is back: {back}"]


@in_virtual_time
async def test_with_storage_authority_an_expiry_is_logged_with_bundles_that_stay_served(
    warnings: Warnings,
) -> None:
    async with serving(12, AuthorityMode.STORAGE) as party:
        party.ensemble.expire(party.store.session_id)
        await eventually(warnings, deadline_s=20.0)
        assert "12 bundles stay served" in warnings()[0]


@in_virtual_time
async def test_a_stop_is_not_logged_as_a_loss(warnings: Warnings) -> None:
    async with serving(12, AuthorityMode.LEASE):
        pass
    assert warnings() == []
