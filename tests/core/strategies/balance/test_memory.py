"""The homes of bundles, and the brokers that a bundle must not return to."""

import json
import math
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.strategies.balance.demands import Demands, Known
from broker_ctl.core.strategies.balance.levels import Levels
from broker_ctl.core.strategies.balance.memory import (
    BalanceMemory,
    FormerBroker,
    Imposed,
    track_moves,
)
from broker_ctl.core.strategies.balance.slowness import ABSENT, SlowMemory, SlownessRecord
from tests.support.clusters.views import BUNDLES, NOW_S, broker, cluster

A, B, C, D = BUNDLES[:4]


def view_of(
    owners: dict[int, str | None],
    later_s: float = 0,
    *,
    unloaded_s: float | None = None,
    is_own: bool = True,
    **moves: str,
) -> ClusterView:
    """Owners by the bundle's number; ``unloaded_s``: when the balancer moved them, if it did."""
    view = cluster(
        [broker("b1", 0.0), broker("b2", 0.0)],
        owners={BUNDLES[number]: owner for number, owner in owners.items()},
        unloaded_s={}
        if unloaded_s is None
        else {BUNDLES[number]: NOW_S + unloaded_s for number in owners},
        moves=[
            InFlight(A, source, destination, is_own=is_own) for source, destination in moves.items()
        ],
    )
    return replace(view, taken_at_s=NOW_S + later_s)


def after(memory: BalanceMemory, view: ClusterView) -> BalanceMemory:
    homes, left, _ = track_moves(memory, view, return_s=3600.0)
    demands = replace(memory.demands, observed_s=view.taken_at_s)
    return replace(memory, homes=homes, left=left, demands=demands)


def test_a_moved_bundle_remembers_its_former_broker() -> None:
    memory = after(BalanceMemory(), view_of({0: "b1", 1: "b1"}))
    assert (memory.homes, memory.left) == ({A: "b1", B: "b1"}, {})
    memory = after(memory, view_of({0: "b2", 1: "b1"}, 60, unloaded_s=30))
    assert memory.homes == {A: "b2", B: "b1"}
    assert memory.left == {A: FormerBroker("b1", NOW_S + 60)}


def test_a_move_counts_from_when_it_was_begun() -> None:
    memory = after(BalanceMemory(), view_of({0: "b1"}))
    memory = after(memory, view_of({0: "b1"}, 60, b1="b2"))
    assert (memory.homes, memory.left) == ({A: "b2"}, {A: FormerBroker("b1", NOW_S + 60)})
    assert after(memory, view_of({0: "b2"}, 120)).left == memory.left


def test_a_bundle_without_an_owner_for_a_moment_keeps_its_home() -> None:
    memory = after(BalanceMemory(), view_of({0: "b1", 1: None}))
    assert memory.homes == {A: "b1"}
    memory = after(memory, view_of({0: None, 1: None}, 60))
    assert memory.homes == {A: "b1"}
    assert after(memory, view_of({0: "b1"}, 120)).left == {}
    moved = view_of({0: "b2"}, 120, unloaded_s=100)
    assert after(memory, moved).left == {A: FormerBroker("b1", NOW_S + 120)}


def test_what_a_death_a_drain_or_an_operator_has_carried_away_may_come_back() -> None:
    memory = after(BalanceMemory(), view_of({0: "b1"}))
    assert after(memory, view_of({0: "b2"}, 60)).left == {}
    imposed = after(memory, view_of({0: "b1"}, 60, is_own=False, b1="b2"))
    assert (imposed.homes, imposed.left) == ({A: "b2"}, {})
    assert after(imposed, view_of({0: "b2"}, 120)).left == {}


def test_a_death_after_a_move_of_the_balancer_does_not_count_as_one() -> None:
    memory = after(BalanceMemory(), view_of({0: "b1"}))
    memory = after(memory, view_of({0: "b2"}, 60, unloaded_s=30))
    back = after(memory, view_of({0: "b1"}, 120, unloaded_s=30))
    # Where the balancer took it from is known; that it left the dead broker is not its choice.
    assert back.left == {A: FormerBroker("b1", NOW_S + 60)}


@pytest.mark.parametrize(("later_s", "is_known"), [(3599, True), (3600, False)])
def test_after_its_time_it_is_forgotten(later_s: float, *, is_known: bool) -> None:
    memory = BalanceMemory(homes={A: "b2"}, left={A: FormerBroker("b1", NOW_S)})
    assert (A in after(memory, view_of({0: "b2"}, later_s)).left) == is_known


def test_a_bundle_that_no_longer_exists_is_forgotten() -> None:
    memory = BalanceMemory(homes={A: "b2", B: "b1"}, left={A: FormerBroker("b1", NOW_S)})
    memory = after(memory, view_of({1: "b1"}, 60))
    assert (memory.homes, memory.left) == ({B: "b1"}, {})


def test_the_parts_of_a_split_inherit_the_former_broker() -> None:
    middle = (A.range.low + A.range.high) // 2
    halves = A.cut((middle,))
    view = cluster([broker("b1", 0.0), broker("b2", 0.0)], owners=dict.fromkeys(halves, "b2"))
    where = FormerBroker("b1", NOW_S - 60)
    memory = after(BalanceMemory(homes={A: "b2"}, left={A: where}), view)
    assert memory.left == dict.fromkeys(halves, where)
    long_ago = BalanceMemory(homes={A: "b2"}, left={A: FormerBroker("b1", NOW_S - 3600)})
    assert after(long_ago, view).left == {}


def test_a_memory_is_written_and_read_as_plain_values() -> None:
    memory = BalanceMemory(
        demands=Demands((0, 3), {A: Known((1.5, 2.0), (3.0, 4.0), 60.0, 1.5)}, NOW_S),
        levels=Levels({"b1": 0.5}, {"b1": 0.75}, {"b1": (40.0, 2.0)}, {"b1": (80.0, math.inf)}),
        homes={A: "b1", B: "b2"},
        left={B: FormerBroker("b1", NOW_S - 60.0)},
        slow=SlowMemory({"b1": SlownessRecord(3, ABSENT, (1.0, 1.25))}),
        imposed=(Imposed(NOW_S - 30.0, 5.0),),
    )
    written = json.dumps(memory.to_row(), allow_nan=False)
    assert BalanceMemory.of_row(json.loads(written)) == memory
    assert BalanceMemory.of_row(BalanceMemory().to_row()) == BalanceMemory()
    assert BalanceMemory.of_row({}) == BalanceMemory()


def test_a_memory_of_an_earlier_release_has_no_swings() -> None:
    row = {"known": {str(A): [[1.5], [3.0], 60.0]}, "active": [0], "observed_s": NOW_S}
    assert Demands.of_row(row).known[A] == Known((1.5,), (3.0,), 60.0, 0.0)
