"""Epochs that senders of commands name, and which of them the store confirms."""

import logging

import pytest

from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.errors import Fenced, StoreError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.paths import LOADBALANCE_ELECTION
from tests.support.clusters.sessions import Party, lagging, parties

PATH = LOADBALANCE_ELECTION.epoch_path
NEVER = 2**63 - 1


async def elect(party: Party) -> int:
    """The epoch of one more election."""
    if await party.store.exists(PATH) is None:
        await party.store.create(PATH, make_parents=True)
    return (await party.store.set(PATH, b"")).version


@in_virtual_time
async def test_an_epoch_that_was_made_up_is_refused_and_leaves_no_trace() -> None:
    async with parties() as (party,):
        epochs = ConfirmedEpoch(party.store, LOADBALANCE_ELECTION)
        with pytest.raises(Fenced, match=f"epoch {NEVER} is unknown: the newest at {PATH} is 0"):
            await epochs.confirm(NEVER)
        assert await elect(party) == 1
        await epochs.confirm(1)
        for made_up in (2, NEVER, 2**80):
            with pytest.raises(Fenced):
                await epochs.confirm(made_up)
        assert epochs.newest == 1
        epochs.require_newest(1, "epoch")


@in_virtual_time
async def test_an_earlier_epoch_than_the_newest_is_stale() -> None:
    async with parties() as (party,):
        epochs = ConfirmedEpoch(party.store, LOADBALANCE_ELECTION)
        for _ in range(3):
            await elect(party)
        # It is known without a command that names it.
        await epochs.confirm(1)
        assert epochs.newest == 3
        with pytest.raises(Fenced, match="split: epoch 2 is stale: 3 was seen"):
            epochs.require_newest(2, "split: epoch")


@in_virtual_time
async def test_a_server_that_is_behind_does_not_make_a_new_leader_unknown() -> None:
    ensemble: MemoryEnsemble = lagging(5.0)
    async with parties(2, ensemble=ensemble) as (behind, leader):
        epochs = ConfirmedEpoch(behind.store, LOADBALANCE_ELECTION)
        epoch = await elect(leader)
        await epochs.confirm(epoch)
        assert epochs.newest == epoch


@in_virtual_time
async def test_what_is_known_never_goes_back_although_a_server_is_behind() -> None:
    async with parties(2, ensemble=lagging(5.0)) as (behind, leader):
        epochs = ConfirmedEpoch(behind.store, LOADBALANCE_ELECTION)
        epochs.newest = await elect(leader)
        await epochs.confirm(0)
        epochs.newest += 1
        await epochs.read()
        with pytest.raises(Fenced):
            epochs.require_newest(1, "epoch")


@in_virtual_time
async def test_an_epoch_is_not_refused_for_want_of_an_answer() -> None:
    async with parties(operation_timeout_s=2.0) as (party,):
        await elect(party)
        epochs = ConfirmedEpoch(party.store, LOADBALANCE_ELECTION)
        party.store.disconnect()
        with pytest.raises(StoreError):
            await epochs.confirm(1)
        party.store.reconnect()
        await epochs.confirm(1)


@in_virtual_time
async def test_made_up_epochs_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with parties() as (party,):
        epochs = ConfirmedEpoch(party.store, LOADBALANCE_ELECTION)
        for number in range(1, 100):
            with pytest.raises(Fenced):
                await epochs.confirm(number)
    refusals = [line for line in caplog.messages if line.startswith("refusing a command at epoch")]
    assert len(refusals) == 10


@in_virtual_time
async def test_a_node_that_was_made_again_has_epochs_of_its_own() -> None:
    async with parties() as (party,):
        epochs = ConfirmedEpoch(party.store, LOADBALANCE_ELECTION)
        for _ in range(3):
            await elect(party)
        await epochs.confirm(3)
        await party.store.delete(PATH)
        # Nobody is elected: what was seen last is still the newest.
        await epochs.confirm(2)
        assert epochs.newest == 3
        assert await elect(party) == 1
        await epochs.confirm(1)
        epochs.require_newest(1, "epoch")
        with pytest.raises(Fenced, match=f"epoch 3 is unknown: the newest at {PATH} is 1"):
            await epochs.confirm(3)


@in_virtual_time
async def test_a_server_that_is_behind_does_not_bring_back_a_former_node() -> None:
    ensemble: MemoryEnsemble = lagging(5.0)
    async with parties(2, ensemble=ensemble) as (behind, leader):
        epochs = ConfirmedEpoch(behind.store, LOADBALANCE_ELECTION)
        await elect(leader)
        await elect(leader)
        await epochs.confirm(2)
        await leader.store.delete(PATH)
        assert await elect(leader) == 1
        # The former node is still what this server has: it is asked before anything is refused.
        await epochs.confirm(1)
        epochs.require_newest(1, "epoch")
