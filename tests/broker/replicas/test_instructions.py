"""What a broker does with instructions, and which it refuses.

Docs: kafka-fencing, kafka-procedures.
"""

import pytest

from broker_ctl.broker.replicas.instructions import Handled
from broker_ctl.core.partitions.instructions import (
    FAILED,
    NO_REPLICA,
    STALE_EPOCH,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
)
from broker_ctl.errors import AuthorityLost, DataPlaneRefused, DataPlaneUnreachable, Fenced
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from tests.support.replicas.instructed_broker import EPOCH, broker, informed_broker
from tests.support.replicas.instructions import (
    BROKERS,
    elect_controllers,
    held,
    named,
    put_topic,
    replica_state,
    stop,
    topic_id,
)
from tests.support.replicas.replica_plane import Call

# What is done, and in which order.


@in_virtual_time
async def test_leaders_come_before_followers_and_those_before_what_ends() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-3", 2))
        one.plane.calls.clear()
        obeyed = await one.handle(
            replica_state("t-0", 2),
            stop("t-3"),
            replica_state("t-1", 1),
            replica_state("t-2", -1),
            replica_state("t-4", 1),
        )
        assert obeyed == Handled(EPOCH, ())
        assert one.plane.calls == [
            Call("lead", ("t-1", "t-4")),
            Call("follow", ("t-0", "t-2")),
            Call("stop", ("t-3",)),
        ]
        assert one.plane.brokers == BROKERS
        assert (len(one.instructions.known), one.instructions.count_led()) == (5, 2)


@in_virtual_time
async def test_an_instruction_that_comes_twice_is_handed_on_twice_and_refused_never() -> None:
    async with informed_broker() as one:
        for _ in range(2):
            assert await one.refusals(replica_state("t-0", 1, 4), replica_state("t-1", 2, 4)) == {}
        assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_another_isr_under_the_same_epoch_reaches_the_leader() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 4, version=8))
        assert await one.refusals(replica_state("t-0", 1, 4, isr=(1, 2), version=9)) == {}
        assert one.plane.calls == [Call("lead", ("t-0",)), Call("lead", ("t-0",))]


@in_virtual_time
async def test_addresses_of_live_brokers_reach_the_data_plane_without_a_follower() -> None:
    async with broker() as one:
        await one.handle()
        assert one.plane.calls == [Call("follow", ())]
        assert one.plane.brokers == BROKERS
        # The same addresses again cause no call.
        await one.handle()
        assert len(one.plane.calls) == 1


@in_virtual_time
async def test_addresses_are_sent_again_after_others_whose_arrival_is_not_certain() -> None:
    async with informed_broker() as one:
        one.plane.loses_answers = True
        with pytest.raises(DataPlaneUnreachable):
            await one.handle(brokers={1: BROKERS[1]})
        one.plane.loses_answers = False
        await one.handle()
        assert one.plane.brokers == BROKERS


# What is refused.


@in_virtual_time
async def test_a_controller_that_was_deposed_is_refused_and_changes_nothing() -> None:
    async with informed_broker() as one:
        await elect_controllers(one.store, 5)
        await one.handle(replica_state("t-0", 2, 3), controller_epoch=5)
        one.plane.calls.clear()
        with pytest.raises(Fenced, match="controller epoch 4 is stale: 5 was seen"):
            await one.handle(replica_state("t-0", 1, 4), controller_epoch=4)
        assert one.plane.calls == []
        assert one.controller_epoch.newest == 5
        assert one.instructions.fenced == 1
        # The same controller goes on, and so does the next.
        assert await one.refusals(replica_state("t-0", 2, 4), controller_epoch=5) == {}
        await elect_controllers(one.store, 6)
        assert await one.refusals(replica_state("t-0", 2, 5), controller_epoch=6) == {}


@in_virtual_time
async def test_a_broker_that_is_about_to_stop_leads_nothing_again() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 3))
        assert await one.instructions.stop_leading()
        one.plane.calls.clear()
        with pytest.raises(AuthorityLost, match="about to stop"):
            await one.handle(replica_state("t-0", 1, 4))
        assert one.plane.calls == []
        await one.instructions.begin()
        assert await one.refusals(replica_state("t-0", 1, 4)) == {}


@in_virtual_time
async def test_a_broker_that_stops_also_stops_a_leader_that_may_not_have_become_a_follower() -> (
    None
):
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 3), replica_state("t-1", 1, 3))
        one.plane.is_silent = True
        with pytest.raises(DataPlaneUnreachable):
            await one.handle(replica_state("t-0", 2, 4))
        one.plane.is_silent, one.plane.refusals = False, {named("t-1"): FAILED}
        assert await one.refusals(replica_state("t-1", 2, 4)) == {"t-1": FAILED}
        assert not await one.instructions.stop_leading()
        assert one.plane.led == {"t-1"}
        one.plane.refusals = {}
        assert await one.instructions.stop_leading()
        assert one.plane.led == set()


@in_virtual_time
async def test_a_controller_epoch_that_nobody_was_elected_at_is_refused_and_forgotten() -> None:
    async with informed_broker() as one:
        with pytest.raises(Fenced, match="epoch 9223372036854775807 is unknown"):
            await one.handle(replica_state("t-0", 1, 9), controller_epoch=2**63 - 1)
        assert one.plane.calls == []
        assert one.controller_epoch.newest == 1
        assert one.instructions.fenced == 1
        assert await one.refusals(replica_state("t-0", 2, 4)) == {}


@in_virtual_time
async def test_a_controller_epoch_that_was_read_counts_like_one_that_was_heard() -> None:
    async with informed_broker() as one:
        await elect_controllers(one.store, 5)
        await one.controller_epoch.read()
        with pytest.raises(Fenced):
            await one.handle(replica_state("t-0", 1), controller_epoch=4)


@in_virtual_time
async def test_an_instruction_for_another_epoch_or_broker_is_refused() -> None:
    async with informed_broker() as one:
        with pytest.raises(Fenced, match="meant for broker 1 at epoch 6, this is 1 at 7"):
            await one.handle(replica_state("t-0", 1), broker_epoch=EPOCH - 1)
        with pytest.raises(Fenced, match="meant for broker 2"):
            await one.handle(replica_state("t-0", 1), broker=2)
        assert one.plane.calls == []


@in_virtual_time
async def test_a_broker_refuses_instructions_until_it_knows_its_own_registration() -> None:
    async with informed_broker() as one:
        one.epoch = 0
        with pytest.raises(AuthorityLost):
            await one.handle(replica_state("t-0", 1))
        one.epoch = EPOCH - 1
        with pytest.raises(AuthorityLost):
            await one.handle(replica_state("t-0", 1))
        one.epoch = EPOCH
        assert await one.refusals(replica_state("t-0", 1)) == {}


@in_virtual_time
async def test_each_partition_is_judged_by_itself() -> None:
    async with informed_broker() as one:
        await one.handle(
            replica_state("a-0", 1, 4), replica_state("b-0", 2, 4), replica_state("c-0", 2, 4)
        )
        one.plane.calls.clear()
        refused = await one.refusals(
            replica_state("a-0", 2, 3),
            replica_state("b-0", 1, 5, life=2),
            replica_state("d-0", 2, replicas=(2, 3)),
            replica_state("c-0", 1, 5),
            stop("a-0", 3),
        )
        assert refused == {"a-0": STALE_EPOCH, "b-0": WRONG_TOPIC_ID, "d-0": NO_REPLICA}
        assert one.plane.calls == [Call("lead", ("c-0",))]
        assert one.plane.led == {"a-0", "c-0"}


@in_virtual_time
async def test_a_deletion_of_what_is_gone_wins_over_any_leader_epoch_and_an_end_does_not() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 4), replica_state("t-1", 1, 4))
        assert await one.refusals(stop("t-0", 3), stop("t-1", 3, is_deleted=True)) == {
            "t-0": STALE_EPOCH
        }
        assert [str(each) for each in one.plane.held] == ["t-0"]
        # It may begin again at any epoch: nothing is known of it.
        assert await one.refusals(replica_state("t-1", 1, 0, life=2)) == {}


@in_virtual_time
async def test_a_repeated_deletion_spares_a_replica_that_was_assigned_here_since() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [2, 3])
        away, back = stop("t-0", 5, is_deleted=True), replica_state("t-0", 2, 6)
        await one.handle(replica_state("t-0", 2, 4))
        assert await one.refusals(away) == {}
        assert one.plane.held == {}
        await put_topic(one.store, "t", [2, 3, 1])
        assert await one.refusals(back) == {}
        # The acknowledgement of both was lost, and they come again, in order.
        assert await one.refusals(away) == {"t-0": STALE_EPOCH}
        assert await one.refusals(back) == {}
        assert [str(each) for each in one.plane.held] == ["t-0"]
        assert [call.name for call in one.plane.calls].count("delete") == 1


@in_virtual_time
async def test_a_topic_that_is_to_be_deleted_goes_whatever_its_leader_epoch() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2])
        await one.handle(replica_state("t-0", 1, 4))
        await one.store.create(paths.deletion("t"), make_parents=True)
        assert await one.refusals(stop("t-0", 0, is_deleted=True)) == {}
        assert one.plane.held == {}


@in_virtual_time
async def test_the_end_of_a_replica_of_an_earlier_topic_spares_the_one_that_is_there() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 0, life=2))
        assert await one.refusals(stop("t-0", 9, life=1, is_deleted=True)) == {}
        assert one.plane.led == {"t-0"}


@in_virtual_time
async def test_the_leader_epoch_of_a_stopped_replica_is_remembered() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("t-0", 1, 4))
        await one.handle(stop("t-0", 6))
        assert (len(one.instructions.known), one.instructions.count_led()) == (1, 0)
        assert await one.refusals(replica_state("t-0", 1, 5)) == {"t-0": STALE_EPOCH}
        assert await one.refusals(replica_state("t-0", 1, 6)) == {}


@in_virtual_time
async def test_a_removal_is_counted_and_so_is_another_registration() -> None:
    async with informed_broker() as one:
        counts = [one.instructions.known.removals]
        await one.handle(replica_state("t-0", 1), stop("t-1"))
        assert one.instructions.known.removals == counts[0]
        await one.handle(stop("t-0", is_deleted=True))
        counts.append(one.instructions.known.removals)
        await one.instructions.begin()
        counts.append(one.instructions.known.removals)
        assert counts == sorted(set(counts))


# Whatever else it holds.


@in_virtual_time
async def test_a_full_instruction_removes_what_it_does_not_name_before_anything_else() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2], [2, 3], [1, 3])
        await one.handle(
            replica_state("t-0", 1), replica_state("t-1", 2), replica_state("gone-0", 2)
        )
        one.plane.calls.clear()
        await one.handle(replica_state("t-0", 1, 1), replica_state("t-2", 1), is_full=True)
        assert one.plane.calls == [
            Call("delete", ("gone-0", "t-1")),
            Call("lead", ("t-0", "t-2")),
        ]
        assert sorted(map(str, one.plane.held)) == ["t-0", "t-2"]


@in_virtual_time
async def test_a_stray_that_could_not_be_removed_goes_the_next_time() -> None:
    async with informed_broker() as one:
        await one.handle(replica_state("gone-0", 2))
        one.plane.is_silent = True
        with pytest.raises(DataPlaneUnreachable):
            await one.handle(is_full=True)
        one.plane.is_silent = False
        one.plane.refusals = {named("gone-0"): STORAGE_ERROR}
        await one.handle(is_full=True)
        assert [str(each) for each in one.plane.held] == ["gone-0"]
        one.plane.refusals.clear()
        await one.handle(is_full=True)
        assert one.plane.held == {}


@in_virtual_time
async def test_a_full_instruction_for_a_span_of_names_removes_nothing_beyond() -> None:
    async with informed_broker() as one:
        await one.handle(
            replica_state("a-0", 2),
            replica_state("b-0", 2),
            replica_state("c-0", 2),
            replica_state("d-0", 2),
        )
        await one.handle(is_full=True, after="a-0", until="c-0")
        assert sorted(map(str, one.plane.held)) == ["a-0", "d-0"]


@in_virtual_time
async def test_a_replica_that_the_store_assigns_here_is_kept_by_a_full_instruction() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2])
        bad = paths.topic("bad")
        await one.store.create(bad, b"{", make_parents=True)
        await one.handle(replica_state("t-0", 2), replica_state("bad-0", 2))
        await one.handle(is_full=True)
        assert sorted(map(str, one.plane.held)) == ["bad-0", "t-0"]


@in_virtual_time
async def test_the_replica_of_a_topic_that_was_created_again_replaces_the_old_one() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2], life=2)
        await one.handle(replica_state("t-0", 1, 9, life=1))
        one.plane.calls.clear()
        assert await one.refusals(replica_state("t-0", 1, 0, life=2), is_full=True) == {}
        assert one.plane.calls == [Call("delete", ("t-0",)), Call("lead", ("t-0",))]
        assert one.plane.held[named("t-0")].topic_id == topic_id("t", 2)


# The begin of a life.


@in_virtual_time
async def test_a_life_begins_with_nothing_led_and_without_replicas_of_former_topics() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2], life=2)
        await put_topic(one.store, "u", [1, 2])
        for each in (held("t-0", 9), held("u-0", 4), held("gone-0", 1)):
            one.plane.held[each.partition] = each
            one.plane.leaders[each.partition] = 1
        await one.instructions.begin()
        assert one.plane.calls == [Call("delete", ("t-0",)), Call("stop", ("u-0", "gone-0"))]
        assert one.plane.led == set()
        # Of what is left, the leader epoch is known.
        assert await one.refusals(
            replica_state("u-0", 1, 3), replica_state("t-0", 1, 0, life=2)
        ) == {"u-0": STALE_EPOCH}


# The data plane refuses, or is silent.


@in_virtual_time
async def test_no_life_begins_while_a_replica_that_may_lead_does_not_stop() -> None:
    async with informed_broker() as one:
        await put_topic(one.store, "t", [1, 2], [1, 2])
        for each in (held("t-0", 4), held("t-1", 4)):
            one.plane.held[each.partition] = each
            one.plane.leaders[each.partition] = 1
        # Without its log, a leader commits nothing.
        one.plane.fail(named("t-1"))
        one.plane.refusals = dict.fromkeys(one.plane.held, STORAGE_ERROR)
        with pytest.raises(DataPlaneRefused, match="t-0 did not stop"):
            await one.instructions.begin()
        del one.plane.refusals[named("t-0")]
        await one.instructions.begin()
        assert one.plane.led == {"t-1"}


@in_virtual_time
async def test_a_refusal_of_the_data_plane_is_answered_and_published_as_failed() -> None:
    async with informed_broker() as one:
        one.plane.refusals = {named("t-0"): STORAGE_ERROR, named("t-1"): FAILED}
        assert await one.refusals(
            replica_state("t-0", 1), replica_state("t-1", 2), replica_state("t-2", 2)
        ) == {
            "t-0": STORAGE_ERROR,
            "t-1": FAILED,
        }
        assert {str(each) for each in one.failed.reasons} == {"t-0", "t-1"}
        one.plane.refusals = {}
        await one.handle(replica_state("t-0", 1), replica_state("t-1", 2))
        assert one.failed.reasons == {}


@in_virtual_time
async def test_an_instruction_that_a_silent_data_plane_missed_may_be_sent_again() -> None:
    async with informed_broker() as one:
        one.plane.is_silent = True
        with pytest.raises(DataPlaneUnreachable):
            await one.handle(replica_state("t-0", 1, 4))
        one.plane.is_silent = False
        assert await one.refusals(replica_state("t-0", 1, 4)) == {}
        assert one.plane.led == {"t-0"}
