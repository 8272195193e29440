"""Reassignment: its steps by example, and cut after every write (docs: kafka-reassignment)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions import elections, reassigning
from broker_ctl.core.partitions.reassigning import (
    NOTHING_ANNOUNCED,
    Announce,
    Finish,
    ReassignmentProgress,
    Settle,
    Wait,
    next_step,
)
from broker_ctl.core.partitions.values import NO_LEADER, Assignment, LeaderAndIsr

ME: Final = 9
LIVE: Final = frozenset(range(1, 7))
ANNOUNCED: Final = ReassignmentProgress(is_announced=True)


def state_of(leader: int, *isr: int, epoch: int = 5, controller_epoch: int = 4) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr, controller_epoch, version=17)


def test_the_example_of_the_reference_row_by_row() -> None:
    moving = reassigning.begun(Assignment((1, 2, 3)), (4, 5, 6))
    assert moving == Assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert (moving.origin, moving.target) == ((1, 2, 3), (4, 5, 6))
    before = state_of(1, 1, 2, 3)
    announced = state_of(1, 1, 2, 3, epoch=6, controller_epoch=ME)
    assert next_step(moving, before, LIVE, ME, NOTHING_ANNOUNCED) == Announce(announced)
    assert next_step(moving, announced, LIVE, ME, ANNOUNCED) == Wait((4, 5, 6))
    assert next_step(moving, state_of(1, 1, 2, 3, 4, 6), LIVE, ME, ANNOUNCED) == Wait((5,))
    settled = state_of(4, 4, 5, 6, epoch=6, controller_epoch=ME)
    ready = state_of(1, 1, 2, 3, 4, 5, 6)
    assert next_step(moving, ready, LIVE, ME, ANNOUNCED) == Settle(settled)
    progress = ReassignmentProgress(is_announced=True, settled_epoch=6)
    finish = Finish(Assignment((4, 5, 6)), 17, (1, 2, 3))
    assert next_step(moving, settled, LIVE, ME, progress) == finish


def test_another_controller_announces_everything_again() -> None:
    moving = reassigning.begun(Assignment((1, 2)), (1, 4))
    waiting = state_of(1, 1, 2, epoch=6, controller_epoch=ME)
    assert isinstance(next_step(moving, waiting, LIVE, ME + 1, NOTHING_ANNOUNCED), Announce)
    settled = state_of(1, 1, 4, epoch=7, controller_epoch=ME)
    again = state_of(1, 1, 4, epoch=8, controller_epoch=ME + 1)
    assert next_step(moving, settled, LIVE, ME + 1, NOTHING_ANNOUNCED) == Settle(again)


def test_a_removed_replica_that_came_back_into_the_isr_is_settled_again() -> None:
    """KAFKA-1097, 1170: nothing was written to the partition, so it caught up at once."""
    moving = reassigning.begun(Assignment((1, 2)), (1, 4))
    progress = ReassignmentProgress(is_announced=True, settled_epoch=6)
    returned = state_of(1, 1, 2, 4, epoch=6, controller_epoch=ME)
    again = state_of(1, 1, 4, epoch=7, controller_epoch=ME)
    assert next_step(moving, returned, LIVE, ME, progress) == Settle(again)


def test_a_reassignment_is_settled_again_after_another_election() -> None:
    """It announced all replicas to all: the leader might take a removed one back."""
    moving = reassigning.begun(Assignment((1, 2)), (1, 4))
    elected = state_of(4, 4, epoch=7, controller_epoch=ME)
    progress = ReassignmentProgress(is_announced=True, settled_epoch=6)
    assert next_step(moving, elected, LIVE - {1}, ME, progress) == Wait((1,))
    elected = state_of(4, 1, 4, epoch=7, controller_epoch=ME)
    assert isinstance(next_step(moving, elected, LIVE, ME, progress), Settle)


def test_the_leader_stays_where_it_may() -> None:
    moving = reassigning.begun(Assignment((1, 2, 3)), (5, 2))
    step = next_step(moving, state_of(2, 1, 2, 3, 5), LIVE, ME, ANNOUNCED)
    assert step == Settle(state_of(2, 2, 5, epoch=6, controller_epoch=ME))


def test_a_target_that_is_in_sync_and_dead_is_waited_for() -> None:
    moving = reassigning.begun(Assignment((1,)), (4,))
    assert next_step(moving, state_of(1, 1, 4), LIVE - {4}, ME, ANNOUNCED) == Wait((4,))


def test_an_override_keeps_what_was_added_until_the_end() -> None:
    moving = reassigning.begun(Assignment((1, 2)), (3, 4))
    over = reassigning.begun(moving, (5, 2))
    assert over == Assignment((5, 2, 3, 4, 1), (5, 3, 4), (3, 4, 1))
    assert (over.origin, over.target) == ((2, 1), (5, 2))
    assert not reassigning.is_going_back(over)
    step = next_step(over, state_of(3, 1, 2, 3, 5), LIVE, ME, ANNOUNCED)
    assert step == Settle(state_of(5, 2, 5, epoch=6, controller_epoch=ME))
    assert reassigning.begun(over, (5, 2)) == over, "asked for twice"


def test_a_cancelled_one_goes_back_at_once_though_an_origin_replica_is_dead() -> None:
    moving = reassigning.begun(Assignment((1, 2)), (3, 4))
    back = reassigning.begun(moving, moving.origin)
    assert reassigning.is_going_back(back)
    assert (back.origin, back.target) == ((1, 2), (1, 2))
    step = next_step(back, state_of(1, 1, 3), LIVE - {2}, ME, NOTHING_ANNOUNCED)
    assert step == Settle(state_of(1, 1, epoch=6, controller_epoch=ME))
    assert reassigning.begun(back, (3, 4)).target == (3, 4), "and the other way again"


def test_a_cancelled_one_waits_for_an_origin_replica_in_sync() -> None:
    back = Assignment((1, 2, 3), (3,), (3,))
    assert next_step(back, state_of(3, 3), LIVE, ME, ANNOUNCED) == Wait((1, 2))


def test_an_undone_reassignment_differs_from_one_that_goes_back() -> None:
    shrinking = reassigning.begun(Assignment((1, 2)), (1,))
    undone = reassigning.begun(shrinking, (1, 2))
    assert reassigning.is_undone(shrinking, undone)
    assert not reassigning.is_undone(Assignment((1, 2)), Assignment((2, 1)))
    moving = reassigning.begun(Assignment((1, 2)), (1, 3))
    assert not reassigning.is_undone(moving, reassigning.begun(moving, (1, 2)))


def test_another_order_of_the_same_replicas_is_not_a_reassignment() -> None:
    assert reassigning.begun(Assignment((1, 2, 3)), (2, 1, 3)) == Assignment((2, 1, 3))


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ((4, 3), None),
        # One that it has already may be dead: it is not moved there.
        ((4, 1), None),
        ((4, 9), "names 9: no such broker lives, only 1, 2, 3, 4"),
        ((4, 4), "names 4 more than once"),
        ((), "names no broker"),
    ],
)
def test_a_target_that_is_dead_is_refused(target: tuple[int, ...], fault: str | None) -> None:
    found = reassigning.fault_of_target(target, Assignment((1, 2, 3)), {2, 3, 4})
    assert found == fault


@pytest.mark.parametrize(
    ("target", "min_isr", "is_refused"),
    [
        ((4, 3), 2, False),
        ((4,), 2, True),
        # Its min ISR is above the number of its replicas: it may move nevertheless.
        ((4, 2, 3), 4, False),
        ((4, 3), 4, True),
    ],
)
def test_a_target_that_could_commit_nothing_is_refused(
    target: tuple[int, ...], min_isr: int, is_refused: bool
) -> None:
    found = reassigning.fault_of_target(target, Assignment((1, 2, 3)), {2, 3, 4}, min_isr)
    assert (found is not None) == is_refused


# Cut after every write.


@dataclass
class World:
    """One partition: what is written, and what its brokers know and hold.

    Each write and each instruction that arrives is one thing that a controller may not live to
    do. In between the leader takes each known replica that follows it into the ISR.
    """

    assignment: Assignment
    state: LeaderAndIsr
    request: tuple[int, ...] | None = None
    live: frozenset[int] = LIVE
    held: dict[int, int] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    known_epoch: int = -1

    def elections(self) -> None:
        """The effect of a change of brokers, with an instruction to all replicas."""
        found = elections.after_broker_change(self.assignment, self.state, self.live, ME)
        if isinstance(found, LeaderAndIsr):
            self.write(found)
            self.instruct(self.assignment.replicas)

    def write(self, state: LeaderAndIsr) -> None:
        self.state = state._replace(version=self.state.version + 1)

    def instruct(self, replicas: tuple[int, ...]) -> None:
        """An instruction to each of the replicas; the leader learns of the list by a new epoch."""
        for replica in replicas:
            if replica in self.live:
                self.held[replica] = self.state.leader_epoch
        if self.state.leader in self.live and self.state.leader_epoch > self.known_epoch:
            self.known, self.known_epoch = replicas, self.state.leader_epoch

    def instruct_in_full(self) -> None:
        """The full instructions of a new controller: strays go."""
        for replica in self.held.keys() & self.live - set(self.assignment.replicas):
            del self.held[replica]
        self.instruct(self.assignment.replicas)

    def fetch(self) -> None:
        """Followers catch up, and the leader writes it."""
        if self.state.leader not in self.live or self.known_epoch != self.state.leader_epoch:
            return
        caught_up = {each for each in self.known if each in self.held and each in self.live}
        if not caught_up <= set(self.state.isr):
            isr = caught_up | set(self.state.isr)
            self.write(elections.with_isr(self.state, isr))


def controlled(world: World) -> Iterator[None]:
    """A controller of this partition, which may die at each yield."""
    progress = NOTHING_ANNOUNCED
    world.elections()
    yield
    world.instruct_in_full()
    yield
    while True:
        if world.request not in {None, world.assignment.target}:
            assert world.request is not None
            after = reassigning.begun(world.assignment, world.request)
            if reassigning.is_undone(world.assignment, after):
                world.write(elections.bump_epoch(world.state, ME))
                yield
                world.instruct(world.assignment.replicas)
                yield
            world.assignment = after
            yield
        if not world.assignment.is_reassigning:
            world.request = None
            return
        step = next_step(world.assignment, world.state, world.live, ME, progress)
        if isinstance(step, Wait):
            yield
            world.fetch()
        elif isinstance(step, Finish):
            if world.state.version == step.version:
                world.assignment, world.request = step.assignment, None
                yield
                for replica in step.removed:
                    if replica in world.live:
                        world.held.pop(replica, None)
                    yield
                return
        else:
            world.write(step.state)
            yield
            is_settled = isinstance(step, Settle)
            world.instruct(world.assignment.target if is_settled else world.assignment.replicas)
            epoch = world.state.leader_epoch if is_settled else progress.settled_epoch
            progress = ReassignmentProgress(is_announced=True, settled_epoch=epoch)
            yield


def run(world: World, cuts: list[int]) -> int:
    """Controllers in succession: each dies after the steps of its cut, and the last one ends.

    Returns:
        the steps of the last one.
    """
    for cut in cuts:
        controller = controlled(world)
        for _ in range(cut):
            next(controller, None)
            world.fetch()
            check(world)
    steps = 0
    for _ in controlled(world):
        check(world)
        steps += 1
        assert steps < 60, "it never ends"
    check(world)
    return steps


def check(world: World) -> None:
    """Check what holds after every step."""
    assert world.state.isr
    assert set(world.state.isr) <= set(world.assignment.replicas), "in sync, and nobody's replica"
    assert world.state.leader in {NO_LEADER, *world.state.isr}
    assert set(world.state.isr) & world.held.keys(), "no replica in sync is left on any disk"


def check_end(world: World, target: tuple[int, ...]) -> None:
    assert world.assignment == Assignment(target)
    assert world.request is None
    assert world.state.leader in target
    assert set(world.state.isr) <= set(target)
    world.instruct_in_full()
    assert world.held.keys() & world.live <= set(target), "a removed replica was left on a disk"
    world.fetch()
    assert set(world.state.isr) == set(target) & world.live


def led(replicas: tuple[int, ...]) -> World:
    state = LeaderAndIsr(replicas[0], 0, tuple(sorted(replicas)), 1, version=0)
    held = dict.fromkeys(replicas, 0)
    return World(Assignment(replicas), state, held=held, known=replicas, known_epoch=0)


SOME = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


@given(SOME, SOME)
def test_a_reassignment_ends_the_same_wherever_its_controller_dies(
    origin: tuple[int, ...], target: tuple[int, ...]
) -> None:
    whole = led(origin)
    whole.request = target
    steps = run(whole, [])
    check_end(whole, target)
    for cut in range(1, steps + 1):
        world = led(origin)
        world.request = target
        run(world, [cut])
        check_end(world, target)
        assert world.state.isr == whole.state.isr


@given(SOME, SOME, SOME, st.lists(st.integers(0, 12), min_size=1, max_size=3))
def test_an_override_ends_at_its_own_target_wherever_it_comes_in(
    origin: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], cuts: list[int]
) -> None:
    world = led(origin)
    world.request = first
    controller = controlled(world)
    for _ in range(cuts[0]):
        next(controller, None)
        world.fetch()
    world.request = second
    run(world, cuts[1:])
    check_end(world, second)


@given(SOME, SOME, st.lists(st.integers(0, 12), min_size=1, max_size=3))
def test_a_cancel_ends_where_it_began_wherever_it_comes_in(
    origin: tuple[int, ...], target: tuple[int, ...], cuts: list[int]
) -> None:
    world = led(origin)
    world.request = target
    controller = controlled(world)
    for _ in range(cuts[0]):
        next(controller, None)
        world.fetch()
    if not world.assignment.is_reassigning:
        return
    world.request = world.assignment.origin
    run(world, cuts[1:])
    check_end(world, world.assignment.replicas)
    assert set(world.assignment.replicas) == set(origin)


@given(SOME, SOME, st.integers(0, 12), st.integers(1, 6))
def test_a_broker_that_dies_in_the_middle_loses_nothing_and_back_again_it_ends(
    origin: tuple[int, ...], target: tuple[int, ...], cut: int, victim: int
) -> None:
    world = led(origin)
    world.request = target
    controller = controlled(world)
    for _ in range(cut):
        next(controller, None)
        world.fetch()
    world.live = LIVE - {victim}
    blind = controlled(world)
    for _ in range(12):
        next(blind, None)
        world.fetch()
        check(world)
    world.live = LIVE
    run(world, [])
    check_end(world, target)
