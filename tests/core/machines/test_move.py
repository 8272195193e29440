"""The machine of a move, cut everywhere: a small world is explored with every fault it allows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from broker_ctl.core.machines.move import (
    ADOPTED,
    BEGUN,
    TRANSITIONS,
    MoveAction,
    MoveEvent,
    MoveState,
    Step,
    step,
)
from broker_ctl.errors import InvalidTransition

SOURCE, DESTINATION, SPARE = "a", "b", "c"
ENDS = {MoveState.ENDED, MoveState.ABORTED}


@dataclass(frozen=True)
class Sent:
    """An order that was not answered: it may be carried out at any later time, or never."""

    action: MoveAction
    broker: str
    version: int


@dataclass(frozen=True)
class World:
    """The store and the brokers. ``version`` is that of the record, None without one."""

    owner: str | None = SOURCE
    version: int | None = 0
    to: str = DESTINATION
    alive: frozenset[str] = frozenset({SOURCE, DESTINATION, SPARE})
    on_the_way: frozenset[Sent] = frozenset()
    leaders: int = 1

    def carried_out(self, order: Sent) -> "World":
        """What a broker does, under the guards of its transaction."""
        if order.broker not in self.alive or self.version != order.version:
            return self
        if order.action is MoveAction.RELEASE and self.owner == order.broker:
            return replace(self, owner=None)
        if order.action is MoveAction.RECEIVE and self.owner is None:
            return replace(self, owner=order.broker)
        return self

    def without(self, broker: str) -> "World":
        """Its session expired: owner node and process are gone."""
        owner = None if self.owner == broker else self.owner
        return replace(self, alive=self.alive - {broker}, owner=owner)


@dataclass(frozen=True)
class Run:
    """A leader in the middle of a move: what it knows, and what it does next."""

    state: MoveState
    actions: tuple[MoveAction, ...]
    world: World
    version: int = 0
    asked: tuple[str, ...] = ()

    @classmethod
    def begun(cls, begin: Step, world: World) -> "Run":
        return cls(*begin, world, version=world.version or 0)

    @property
    def is_over(self) -> bool:
        return not self.actions

    def next(
        self,
        event: MoveEvent,
        world: World,
        *,
        version: int | None = None,
        asked: tuple[str, ...] | None = None,
    ) -> "Run":
        return Run(
            *step(self.state, event),
            world,
            self.version if version is None else version,
            self.asked if asked is None else asked,
        )


def look(run: Run) -> MoveEvent:
    world = run.world
    if world.owner == world.to:
        return MoveEvent.AT_DESTINATION
    if world.version is None:
        return MoveEvent.OVER
    if world.owner is None:
        can_ask = world.to in world.alive and run.asked.count(world.to) < 2
        return MoveEvent.FREE if can_ask else MoveEvent.STRAY
    return MoveEvent.AT_SOURCE if world.owner == SOURCE else MoveEvent.ELSEWHERE


def answers(run: Run) -> Iterator[Run]:
    """All that an action may come to, the undisturbed course first."""
    (action,) = run.actions
    world = run.world
    match action:
        case MoveAction.LOOK:
            yield run.next(look(run), world)
        case MoveAction.CLOSE:
            gone = replace(world, version=None) if world.version == run.version else world
            yield run.next(MoveEvent.CLOSED, gone)
        case MoveAction.REROUTE:
            yield rerouted(run)
        case MoveAction.PREPARE | MoveAction.RELEASE | MoveAction.RECEIVE:
            yield from ordered(run, action)


def rerouted(run: Run) -> Run:
    world = run.world
    others = sorted(world.alive - {*run.asked, world.to})
    if not others:
        return run.next(MoveEvent.NO_RECEIVER, world)
    if world.version != run.version:
        return run.next(MoveEvent.REFUSED, world, version=world.version or run.version)
    version = run.version + 1
    return run.next(
        MoveEvent.REROUTED, replace(world, to=others[0], version=version), version=version
    )


def ordered(run: Run, action: MoveAction) -> Iterator[Run]:
    world = run.world
    broker = SOURCE if action is MoveAction.RELEASE else world.to
    asked = (*run.asked, broker) if action is MoveAction.RECEIVE else run.asked
    order = Sent(action, broker, run.version)
    done = world.carried_out(order)
    is_done = action is MoveAction.PREPARE or done != world
    if broker in world.alive and is_done:
        ended = replace(done, version=None) if action is MoveAction.RECEIVE else done
        yield run.next(MoveEvent.EXECUTED, ended, asked=asked)
        yield run.next(MoveEvent.UNANSWERED, done, asked=asked)
        yield run.next(MoveEvent.UNANSWERED, ended, asked=asked)
    on_the_way = replace(world, on_the_way=world.on_the_way | {order})
    yield run.next(MoveEvent.UNANSWERED, on_the_way, asked=asked)
    yield run.next(MoveEvent.REFUSED, world, asked=asked)


def faults(run: Run) -> Iterator[Run]:
    """What may happen beside the leader's action."""
    world = run.world
    for order in world.on_the_way:
        late = world.carried_out(order)
        if late != world:
            yield replace(run, world=replace(late, on_the_way=world.on_the_way - {order}))
    for broker in world.alive:
        if len(world.alive) > 1:
            yield replace(run, world=world.without(broker))
    if world.leaders < 2 and world.version is not None:
        # The leader is killed; the next one writes the record again, which voids all orders.
        adopted = replace(world, version=world.version + 1, leaders=world.leaders + 1)
        yield Run.begun(ADOPTED, adopted)


def reachable() -> set[Run]:
    start = Run.begun(BEGUN, World())
    seen, waiting = {start}, [start]
    while waiting:
        run = waiting.pop()
        following = [] if run.is_over else [*answers(run), *faults(run)]
        for later in following:
            if later not in seen:
                seen.add(later)
                waiting.append(later)
    return seen


@pytest.fixture(scope="module")
def runs() -> set[Run]:
    return reachable()


def test_the_world_is_large_enough_to_mean_something(runs: set[Run]) -> None:
    states = {run.state for run in runs}
    assert states == set(MoveState)
    assert len(runs) > 5_000


def test_wherever_a_move_is_cut_it_ends_without_a_record(runs: set[Run]) -> None:
    for run in runs:
        cut, steps = run, 0
        while not cut.is_over:
            cut, steps = next(answers(cut)), steps + 1
            assert steps < 25, f"does not end: {run}"
        assert cut.world.version is None, run


def test_a_move_that_ended_is_where_it_was_to_go(runs: set[Run]) -> None:
    for run in runs:
        if run.state is MoveState.ENDED and run.world.to in run.world.alive:
            assert run.world.owner == run.world.to, run


def test_an_aborted_move_leaves_an_owner_or_a_bundle_that_anybody_may_place(
    runs: set[Run],
) -> None:
    for run in runs:
        if run.state is MoveState.ABORTED:
            assert run.world.version is None, run
            assert run.world.owner is None or run.world.owner in run.world.alive, run


def test_no_order_on_the_way_does_anything_once_the_move_is_over(runs: set[Run]) -> None:
    for run in runs:
        if run.is_over:
            for order in run.world.on_the_way:
                assert run.world.carried_out(order) == run.world, run


def test_the_undisturbed_course_orders_each_broker_once() -> None:
    run, orders = Run.begun(BEGUN, World()), []
    while not run.is_over:
        orders.append(run.actions[0])
        run = next(answers(run))
    assert orders == [MoveAction.PREPARE, MoveAction.RELEASE, MoveAction.RECEIVE, MoveAction.CLOSE]
    assert run.state is MoveState.ENDED
    assert run.world.owner == DESTINATION


def test_a_dead_receiver_is_replaced_once_the_source_has_released() -> None:
    world = replace(World(owner=None), alive=frozenset({SOURCE, SPARE}))
    run = Run.begun(ADOPTED, world)
    while not run.is_over:
        run = next(answers(run))
    assert run.state is MoveState.ENDED
    assert run.world.owner in {SOURCE, SPARE}


def test_a_pair_without_a_row_is_refused_with_the_given_detail() -> None:
    with pytest.raises(InvalidTransition, match="long ago"):
        step(MoveState.ENDED, MoveEvent.EXECUTED, "long ago")


def test_each_row_has_at_most_one_action_and_ends_have_none() -> None:
    for (state, _), (following, actions) in TRANSITIONS.items():
        assert state not in ENDS
        assert len(actions) == (0 if following in ENDS else 1)
