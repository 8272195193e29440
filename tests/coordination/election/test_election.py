"""Election: one leads at a time, each under a higher epoch, and the work ends with the leading."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination.election import Election, Leadership
from broker_ctl.core.machines.election import STABLE_S, ElectionState
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.errors import AuthorityLost, BadVersion, LeadershipSuspended, MultiFailed
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    Operation,
    Result,
    SetData,
    Versioned,
)
from broker_ctl.store.paths import LOADBALANCE_ELECTION
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import TIMEOUT_S, Party, parties
from tests.support.time.waiting import eventually

ELECTION = LOADBALANCE_ELECTION


class Candidate:
    """A party that stands for election, and the story of its leadings."""

    def __init__(self, party: Party, record: "EpochRecord") -> None:
        self.party = party
        self.store = party.store
        self.record = record
        self.election = Election(
            party.store,
            party.watcher,
            party.deletions,
            clock=party.clock,
            election_name=ELECTION,
            leader=LeaderBroker(party.broker_id, f"http://{party.broker_id}"),
            rng=party.rng,
        )
        self.leaderships: list[Leadership] = []
        self.is_at_work = False
        self.failure: Exception | None = None
        self.pause_s = 0.0
        self.tasks = TaskScope(party.broker_id)
        party.watcher.listen(self.election.on_session_action)

    def stand(self) -> None:
        self.tasks.start(self.party.watcher.run_epochs(self._session), "epochs")

    async def _session(self, _epoch: int) -> None:
        await self.election.run(self.lead)

    async def lead(self, leadership: Leadership) -> None:
        self.record.overlaps += self.is_at_work
        self.leaderships.append(leadership)
        self.record.epochs.append(leadership.epoch)
        self.is_at_work = True
        try:
            if self.failure is not None:
                raise self.failure
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(self.pause_s)
            self.is_at_work = False

    @property
    def state(self) -> ElectionState:
        return self.election.state

    @property
    def leads(self) -> bool:
        return self.election.leadership is not None and self.is_at_work


class EpochRecord:
    """Epochs in the order in which they were led at, and terms that began during another."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.overlaps = 0


@asynccontextmanager
async def candidates(
    count: int, operation_timeout_s: float = 30.0
) -> AsyncIterator[list[Candidate]]:
    async with parties(count, operation_timeout_s=operation_timeout_s) as built:
        record = EpochRecord()
        all_ = [Candidate(party, record) for party in built]
        yield all_
        for candidate in all_:
            await candidate.tasks.close()
        assert record.epochs == sorted(set(record.epochs)), "epochs grow"
        assert record.overlaps == 0, "two leadings of one process overlap"


async def elected(all_: list[Candidate]) -> Candidate:
    """Wait until exactly one leads and all others know who."""

    def settled() -> Candidate | None:
        leading = [one for one in all_ if one.leads]
        if len(leading) != 1:
            return None
        known = {one.election.leader and one.election.leader.broker_id for one in all_}
        return leading[0] if known == {leading[0].party.broker_id} else None

    return await eventually(settled, deadline_s=60.0, what="one leads")


async def stepped_down(one: Candidate) -> None:
    await eventually(lambda: not one.leads)


@in_virtual_time
async def test_of_many_candidates_exactly_one_leads_and_all_know_who() -> None:
    async with candidates(5) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        await asyncio.sleep(60.0)
        assert await elected(all_) is leader
        assert leader.record.epochs == [1]
        assert {one.state for one in all_ if one is not leader} == {ElectionState.FOLLOWING}


@in_virtual_time
async def test_when_the_leader_s_session_ends_another_leads_under_a_higher_epoch() -> None:
    async with candidates(3) as all_:
        for one in all_:
            one.stand()
        for _ in range(4):
            first = await elected(all_)
            first.party.expire()
            await stepped_down(first)
            await elected(all_)
        assert all_[0].record.epochs == [1, 2, 3, 4, 5]


@in_virtual_time
async def test_whoever_follows_another_leader_than_before_has_another_version() -> None:
    async with candidates(3) as all_:
        for one in all_:
            one.stand()
        first = await elected(all_)
        follower, other = (one for one in all_ if one is not first)
        versions = [follower.election.version]
        await elected(all_)
        assert follower.election.version == versions[0]
        first.party.expire()
        await eventually(lambda: follower.election.leader != first.election._own)
        versions.append(follower.election.version)
        await eventually(lambda: follower.leads or other.leads)
        await eventually(lambda: follower.election.leader is not None)
        versions.append(follower.election.version)
        await follower.tasks.close()
        assert follower.election.leader is None
        versions.append(follower.election.version)
        assert versions == sorted(versions)
        assert versions[0] < versions[1]
        assert versions[2] < versions[3]


@in_virtual_time
async def test_a_deposed_leader_s_transaction_is_refused() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        old = await elected(all_)
        await old.store.create("/decision")
        guard = old.leaderships[0].guard
        await old.store.multi([guard, SetData("/decision", b"at epoch 1")])
        old.party.expire()
        await eventually(lambda: not old.leads)
        new = await elected(all_)
        with pytest.raises(MultiFailed) as met:
            await old.store.multi([guard, SetData("/decision", b"still?")])
        assert met.value.index == 0
        assert isinstance(met.value.cause, BadVersion)
        await new.store.multi([new.leaderships[-1].guard, SetData("/decision", b"new")])


@in_virtual_time
async def test_a_leader_that_is_cut_off_decides_nothing_and_leads_on_if_its_node_stands() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        leadership = leader.leaderships[0]
        leadership.check()
        leader.store.disconnect()
        assert leader.state is ElectionState.SUSPENDED
        assert leader.election.leadership is None
        with pytest.raises(LeadershipSuspended):
            leadership.check()
        deciding = leader.tasks.start(leadership.wait_deciding(), "decide")
        await asyncio.sleep(3.0)
        assert not deciding.done(), "its lease runs, and it waits nevertheless"
        leader.party.watcher.check()
        leader.store.reconnect()
        await deciding
        assert await elected(all_) is leader
        leadership.check()
        assert leader.leaderships == [leadership], "the same leading"


@in_virtual_time
async def test_a_second_outage_while_the_node_is_verified_leaves_the_leader_suspended() -> None:
    async with candidates(1) as (one,):
        one.stand()
        await elected([one])
        original = one.store.get
        cuts: list[float] = []

        async def get_then_blink(path: str) -> object:
            node = await original(path)
            if path == ELECTION.node_path and not cuts:
                # Answered on the new connection, which is gone before the answer is looked at.
                cuts.append(one.party.clock.now_s())
                one.store.disconnect()
                await eventually(lambda: one.party.watcher.state is SessionState.SUSPENDED)
            return node

        one.store.disconnect()
        await asyncio.sleep(1.0)
        one.store.get = get_then_blink  # type: ignore[method-assign, assignment]  # one race
        one.store.reconnect()
        await eventually(lambda: cuts)
        await asyncio.sleep(1.0)
        assert one.state is ElectionState.SUSPENDED
        with pytest.raises(LeadershipSuspended):
            one.leaderships[0].check()
        one.store.get = original  # type: ignore[method-assign]  # as it was
        one.store.reconnect()
        await elected([one])
        assert len(one.leaderships) == 1


@in_virtual_time
async def test_a_wait_to_decide_raises_authority_lost_when_the_leadership_ends() -> None:
    async with candidates(1) as (one,):
        one.stand()
        await elected([one])
        one.store.disconnect()
        began_s = one.party.clock.now_s()
        with pytest.raises(AuthorityLost):
            await one.leaderships[0].wait_deciding()
        assert one.party.clock.now_s() - began_s < TIMEOUT_S
        one.store.reconnect()


@in_virtual_time
async def test_without_authority_the_leader_steps_down_before_another_can_lead() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        (other,) = (one for one in all_ if one is not leader)
        leader.store.disconnect()
        await eventually(lambda: not leader.is_at_work, deadline_s=TIMEOUT_S)
        with pytest.raises(AuthorityLost):
            leader.leaderships[0].check()
        assert leader.party.ensemble.tree.find(ELECTION.node_path) is not None
        assert not other.leads
        await eventually(lambda: other.leads, deadline_s=TIMEOUT_S)
        leader.store.reconnect()
        assert await elected(all_) is other


@in_virtual_time
async def test_an_answer_from_before_the_cut_does_not_make_a_suspended_leader_lead() -> None:
    async with candidates(1) as (one,):
        one.stand()
        await elected([one])
        # The read is answered, and the connection lost before the answer is looked at.
        one.election._wake.set()
        original = one.store.get

        async def get_then_cut(path: str) -> object:
            node = await original(path)
            if path == ELECTION.node_path:
                one.store.disconnect()
            return node

        one.store.get = get_then_cut  # type: ignore[method-assign, assignment]  # one race
        await eventually(lambda: one.state is ElectionState.SUSPENDED, poll_s=0.0001)
        await asyncio.sleep(1.0)
        assert one.state is ElectionState.SUSPENDED
        one.store.get = original  # type: ignore[method-assign]  # as it was
        one.store.reconnect()
        await elected([one])
        assert len(one.leaderships) == 1


@in_virtual_time
async def test_a_leader_whose_work_fails_leaves_the_election_to_others() -> None:
    async with candidates(2) as (one, two):
        one.failure = ValueError("the work fails")
        one.stand()
        await eventually(lambda: one.leaderships)
        two.stand()
        assert await elected([one, two]) is two


@in_virtual_time
async def test_one_that_has_given_way_once_does_not_wait_when_the_next_leader_is_gone() -> None:
    async with candidates(2) as (one, two):
        one.stand()
        await elected([one])
        two.stand()
        for former, next_ in ((one, two), (two, one), (one, two)):
            await former.store.delete(ELECTION.node_path)
            # Nobody waits for the pause of the one that led before.
            await eventually(lambda: next_.leads, deadline_s=0.2, poll_s=0.01)  # noqa: B023
            await asyncio.sleep(10.0)


@in_virtual_time
async def test_one_that_gives_way_does_so_once_its_node_is_gone_however_late() -> None:
    async with candidates(2) as (one, two):
        one.stand()
        await elected([one])
        two.stand()
        original = two.store.get

        async def get(path: str) -> Versioned | None:
            await asyncio.sleep(0.05)
            return await original(path)

        two.store.get = get  # type: ignore[method-assign]  # two is farther away
        # The node is deleted after the work has ended.
        one.pause_s = 5.0
        one.election.on_session_action(SessionAction.FENCE)
        assert await elected([one, two]) is two


@in_virtual_time
async def test_one_that_gives_way_learns_at_once_who_leads() -> None:
    async with candidates(2) as (one, two):
        one.failure = ValueError("the work fails")
        one.stand()
        await eventually(lambda: len(one.leaderships) == 7, deadline_s=60.0)
        two.stand()
        await eventually(lambda: two.leads)
        await eventually(lambda: one.election.leader, deadline_s=0.2, poll_s=0.01)
        assert one.state is ElectionState.FOLLOWING


@in_virtual_time
async def test_alone_it_tries_again_after_growing_pauses() -> None:
    async with candidates(1) as (one,):
        one.failure = ValueError("the work fails")
        one.stand()
        await asyncio.sleep(10.0)
        first = len(one.leaderships)
        assert 2 <= first <= 8
        await asyncio.sleep(60.0)
        assert len(one.leaderships) - first <= 6
        one.failure = None
        await eventually(lambda: one.leads, deadline_s=60.0)


@in_virtual_time
async def test_a_leader_that_resigns_deletes_its_node_and_stands_no_more() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        (other,) = (one for one in all_ if one is not leader)
        await leader.election.resign()
        assert leader.election.is_resigned
        assert not leader.is_at_work
        await eventually(lambda: other.leads, deadline_s=1.0)
        await other.election.resign()
        await asyncio.sleep(30.0)
        assert leader.party.ensemble.tree.find(ELECTION.node_path) is None
        assert not leader.leads


@in_virtual_time
async def test_the_leader_node_is_deleted_after_the_work_has_ended() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.pause_s = 2.0
            one.stand()
        leader = await elected(all_)
        (other,) = (one for one in all_ if one is not leader)
        async with asyncio.TaskGroup() as group:
            group.create_task(leader.election.resign(), name="resign")
            await asyncio.sleep(1.0)
            assert leader.is_at_work
            assert not other.is_at_work
        await eventually(lambda: other.leads)


@in_virtual_time
async def test_a_resignation_during_an_outage_is_made_good_after_it() -> None:
    async with candidates(1, operation_timeout_s=0.5) as (one,):
        one.stand()
        await elected([one])
        one.store.disconnect()
        async with asyncio.TaskGroup() as group:
            group.create_task(one.election.resign(), name="resign")
            await asyncio.sleep(2.0)
            one.store.reconnect()
        assert one.party.ensemble.tree.find(ELECTION.node_path) is None


@in_virtual_time
async def test_a_leader_whose_tasks_are_closed_leaves_the_election_to_others() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        (other,) = (one for one in all_ if one is not leader)
        leadership = leader.leaderships[0]
        # The daemon's own session goes on: its data plane is silent, say.
        await leader.tasks.close()
        assert leader.store.is_connected
        with pytest.raises(AuthorityLost):
            leadership.check()
        await eventually(lambda: other.leads, deadline_s=1.0)


@in_virtual_time
async def test_a_leader_whose_tasks_are_closed_in_an_outage_deletes_its_node_after_it() -> None:
    async with candidates(2, operation_timeout_s=1.0) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        (other,) = (one for one in all_ if one is not leader)
        leader.store.disconnect()
        await leader.tasks.close()
        # Longer than any attempt, shorter than the session: that one lives on.
        await asyncio.sleep(3.0)
        session_id = leader.store.session_id
        leader.store.reconnect()
        await eventually(lambda: other.leads, deadline_s=5.0)
        assert leader.store.session_id == session_id
        leader.party.watcher.check()


@in_virtual_time
async def test_a_candidate_that_is_stopped_while_it_creates_its_node_leaves_it_to_others() -> None:
    async with candidates(2) as (one, other):
        tree = one.party.ensemble.tree
        one.party.longest_s = 0.5
        one.stand()
        await eventually(lambda: tree.find(ELECTION.node_path), what="taken, and not answered yet")
        assert one.leaderships == []
        await one.tasks.close()
        other.stand()
        await eventually(lambda: other.leads, deadline_s=5.0)


@in_virtual_time
async def test_a_late_deletion_of_an_earlier_candidacy_spares_the_node_of_the_next() -> None:
    async with candidates(1, operation_timeout_s=1.0) as (one,):
        one.stand()
        await elected([one])
        # A candidate that has led for longer than STABLE_S stands again without a pause.
        await asyncio.sleep(2 * STABLE_S)
        one.store.disconnect()
        await one.tasks.close()
        one.tasks = TaskScope("again")
        # The first attempt has failed, and the next one comes in a moment only.
        await asyncio.sleep(1.1)
        one.stand()
        one.store.reconnect()
        await elected([one])
        await asyncio.sleep(5.0)
        assert one.record.epochs == [1, 2]


@in_virtual_time
async def test_a_candidate_that_never_stood_resigns_without_effect_and_stands_no_more() -> None:
    async with candidates(1) as (one,):
        async with asyncio.timeout(1.0):
            await one.election.resign()
        one.stand()
        await asyncio.sleep(5.0)
        assert one.leaderships == []


@in_virtual_time
async def test_a_leader_node_that_does_not_decode_is_followed_and_survived() -> None:
    async with candidates(2) as (one, two):
        await two.store.create(ELECTION.node_path, b"{", CreateMode.EPHEMERAL, make_parents=True)
        one.stand()
        await eventually(lambda: one.state is ElectionState.FOLLOWING)
        assert one.election.leader is None
        await two.store.delete(ELECTION.node_path)
        await eventually(lambda: one.leads)


@in_virtual_time
async def test_a_leader_whose_node_is_deleted_steps_down() -> None:
    async with candidates(2) as all_:
        for one in all_:
            one.stand()
        leader = await elected(all_)
        leadership = leader.leaderships[0]
        (other,) = (one for one in all_ if one is not leader)
        await other.store.delete(ELECTION.node_path)
        await eventually(lambda: leader.election.leadership is not leadership)
        with pytest.raises(AuthorityLost):
            leadership.check()
        await elected(all_)


@in_virtual_time
async def test_a_leader_whose_node_is_replaced_in_its_own_session_steps_down() -> None:
    async with candidates(1) as (one,):
        one.stand()
        await elected([one])
        (leadership,) = one.leaderships
        node = await one.store.get(ELECTION.node_path)
        assert node is not None
        again = Create(ELECTION.node_path, node.data, CreateMode.EPHEMERAL)
        await one.store.multi([Delete(ELECTION.node_path), again])
        await eventually(lambda: one.election.leadership is not leadership)
        with pytest.raises(AuthorityLost):
            leadership.check()


@in_virtual_time
async def test_a_candidate_that_is_cut_off_as_its_node_is_created_does_not_lead_by_it() -> None:
    async with candidates(1) as (one,):
        multi = one.store.multi

        async def create_then_cut(operations: Sequence[Operation]) -> tuple[Result, ...]:
            results = await multi(operations)
            one.store.multi = multi  # type: ignore[method-assign]  # as it was
            one.party.blink()
            return results

        one.store.multi = create_then_cut  # type: ignore[method-assign]  # one race
        one.stand()
        await elected([one])
        assert one.record.epochs == [2]


@in_virtual_time
async def test_a_node_of_this_session_from_before_is_replaced_under_a_new_epoch() -> None:
    async with candidates(1) as (one,):
        left = await one.store.create(
            ELECTION.node_path, b"{}", CreateMode.EPHEMERAL, make_parents=True
        )
        one.stand()
        await elected([one])
        node = await one.store.get(ELECTION.node_path)
        assert node is not None
        assert node.stat.czxid > left.stat.czxid


@in_virtual_time
async def test_without_authority_nobody_stands_in_the_way_of_others() -> None:
    async with candidates(2) as (one, two):
        one.party.clock.stalled_s = 30.0
        one.stand()
        await asyncio.sleep(1.0)
        assert one.party.ensemble.tree.find(ELECTION.epoch_path) is None
        two.stand()
        assert await elected([one, two]) is two


@in_virtual_time
async def test_two_leadings_of_one_process_never_overlap_however_long_the_work_takes_to_end() -> (
    None
):
    async with candidates(1) as (one,):
        one.pause_s = 3.0
        one.stand()
        await elected([one])
        for _ in range(3):
            await one.store.delete(ELECTION.node_path)
            await eventually(lambda: not one.leads)
            await eventually(lambda: one.leads, deadline_s=60.0)
        assert len(one.leaderships) == 4


@in_virtual_time
async def test_whatever_happens_to_connections_and_sessions_one_leads_in_the_end() -> None:
    for seed in range(6):
        async with candidates(3) as all_:
            rng = all_[0].party.rng
            rng.seed(seed)
            for one in all_:
                one.stand()
            for _ in range(40):
                await asyncio.sleep(rng.uniform(0, 1.0))
                assert sum(one.election.leadership is not None for one in all_) <= 1
                one = rng.choice(all_)
                match rng.randrange(4):
                    case 0:
                        one.party.blink()
                    case 1:
                        one.party.expire()
                    case 2:
                        one.store.disconnect()
                        asyncio.get_running_loop().call_later(
                            rng.uniform(0, 12.0), one.store.reconnect
                        )
                    case 3:
                        one.party.ensemble.reap()
            await asyncio.sleep(15.0)
            await elected(all_)
