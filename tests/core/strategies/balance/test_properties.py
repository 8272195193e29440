"""What holds for every cluster: of the whole strategy, from a view to its decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import MIB, Budgets, PlacementRules
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.balance.memory import BalanceMemory, FormerBroker
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.core.strategies.balance.fleets import (
    ALERT,
    CALM,
    POLICY,
    Fleet,
    reporting,
    rules_of,
    sized,
)
from tests.support.clusters.views import NOW_S, cluster

T = TypeVar("T")
FREE, GOLD, EXCLUDED, GROUPED, PINNED = (
    Ring.even(Namespace(tenant, name), count)
    for tenant, name, count in (
        ("tenant", "free", 16),
        ("tenant", "gold", 8),
        ("tenant", "excluded", 4),
        ("tenant", "grouped", 4),
        ("pulsar", "b0:8080", 1),
    )
)
RINGS: Final = (FREE, GOLD, EXCLUDED, GROUPED, PINNED)
ALL: Final = tuple(bundle for ring in RINGS for bundle in ring.bundles)
POLICIES: Final = Constraints(
    isolation=(IsolationPolicy("gold", ("tenant/gold",), ("b[01]",), ("b2",)),),
    group_of={GROUPED.namespace: "group"},
)
BALANCE: Final = replace(ALERT, band=replace(CALM.band, high=1.1, low=1.02))
RULES: Final = replace(rules_of(BALANCE), excluded_namespaces=frozenset([EXCLUDED.namespace]))


WIDE: Final = Budgets(
    max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=99.0
)


def view_of(count: int, seed: int) -> ClusterView:
    """Brokers of two sizes, some of them leaving or silent; some bundles busy or at rest."""
    dice = np.random.Generator(np.random.PCG64(seed))
    # One broker has as many as all others together.
    weights = np.array([count - 1.0] + [1.0] * (count - 1)) / (2 * count - 2)
    owners = dice.choice(count, len(ALL), p=weights)
    # A few sizes only, so that many are equal.
    sizes = dice.choice([0, 10, 20, 40, 80], (len(ALL), 2))
    lines: list[dict[Bundle, BundleStats]] = [{} for _ in range(count)]
    for bundle, owner, (rate_in, rate_out) in zip(ALL, owners.tolist(), sizes, strict=True):
        traffic = float(rate_in) * MIB, float(rate_out) * MIB
        lines[owner][bundle] = BundleStats(rate_in, rate_out, *traffic, 3, 3, 3)
    brokers = [
        replace(
            reporting(f"b{number}:8080", each, float(dice.choice([2000.0, 4000.0]))),
            is_draining=bool(dice.random() < 0.1),
            age_s=float(dice.choice([0.0, 0.0, 0.0, 0.0, 9999.0])),
        )
        for number, each in enumerate(lines)
    ]
    busy = [ALL[place] for place in dice.choice(len(ALL), 3, replace=False)]
    rested = {b: NOW_S - float(dice.choice([60.0, 9999.0])) for b in ALL if dice.random() < 0.3}
    view = cluster(
        sized(brokers),
        rings=RINGS,
        moves=[InFlight(busy[0], f"b{owners[ALL.index(busy[0])]}:8080", "b0:8080")],
        splitting=busy[1:],
        unloaded_s=rested,
    )
    return replace(view, constraints=POLICIES)


counts, seeds = st.integers(2, 6), st.integers(0, 2**32)
lefts = st.dictionaries(
    st.sampled_from(ALL),
    st.builds(
        FormerBroker,
        st.sampled_from(["b0:8080", "b1:8080", "b2:8080", "gone:8080"]),
        st.sampled_from([NOW_S - 60, NOW_S - 3599, NOW_S - 3600]),
    ),
    max_size=20,
)


def decided(
    view: ClusterView, left: Mapping[Bundle, FormerBroker] | None = None
) -> tuple[Decision, ...]:
    memory = POLICY.observe(BalanceMemory(left=left or {}), view, RULES)
    return POLICY.shed(view, memory, RULES)


def moves_of(decisions: tuple[Decision, ...]) -> list[Transfer]:
    return [each for each in decisions if isinstance(each, Transfer)]


@given(counts, seeds, lefts)
def test_a_plan_breaks_no_constraint(
    count: int, seed: int, left: Mapping[Bundle, FormerBroker]
) -> None:
    view = view_of(count, seed)
    moves = moves_of(decided(view, left))
    for move in moves:
        seen, source = view.bundles[move.bundle], view.brokers[move.source]
        assert move.bundle in source.owned
        assert not seen.is_pinned
        assert not view.is_busy(move.bundle)
        assert move.bundle.namespace not in {EXCLUDED.namespace, GROUPED.namespace}
        assert seen.last_unloaded_s is None or NOW_S - seen.last_unloaded_s >= BALANCE.rest_s
        assert not source.is_draining
        assert source.age_s <= RULES.report_ttl_s
        assert move.destination in view.receivers(RULES.report_ttl_s, move.source)
        if move.bundle.namespace == GOLD.namespace:
            primaries = {"b0:8080", "b1:8080"} & set(view.receivers(RULES.report_ttl_s))
            assert move.destination in (primaries or {"b2:8080"})
        else:
            assert move.destination not in {"b0:8080", "b1:8080"}
        was = left.get(move.bundle)
        if was is not None and NOW_S - was.at_s < BALANCE.return_s:
            assert move.destination != was.broker_id
    assert len({move.bundle for move in moves}) == len(moves)


@given(counts, seeds, lefts)
def test_the_order_of_its_input_says_nothing(
    count: int, seed: int, left: Mapping[Bundle, FormerBroker]
) -> None:
    view = view_of(count, seed)
    dice = np.random.Generator(np.random.PCG64(seed))
    brokers, bundles, known = list(view.brokers), list(view.bundles), list(left)
    turned = replace(
        view,
        brokers={brokers[place]: view.brokers[brokers[place]] for place in shuffled(dice, brokers)},
        bundles={bundles[place]: view.bundles[bundles[place]] for place in shuffled(dice, bundles)},
    )
    again = {known[place]: left[known[place]] for place in shuffled(dice, known)}
    assert decided(turned, again) == decided(view, left)


def shuffled(dice: np.random.Generator, items: Sequence[object]) -> list[int]:
    return [int(place) for place in dice.permutation(len(items))]


fleets = st.lists(
    st.lists(st.sampled_from([5, 10, 20, 40, 80]), max_size=12), min_size=2, max_size=6
).filter(any)
capacities = st.lists(st.sampled_from([500.0, 1000.0, 1500.0]), min_size=6, max_size=6)


def named(values: Sequence[T]) -> dict[str, T]:
    return {f"b{number}": each for number, each in enumerate(values)}


@given(fleets, capacities)
def test_a_plan_that_has_been_carried_out_leaves_nothing_to_plan(
    traffic: list[list[float]], capacity: list[float]
) -> None:
    world = Fleet.of(named(traffic), named(capacity), rules_of(replace(CALM, band=BALANCE.band)))
    before = sorted(world.usage.values(), reverse=True)
    moves = world.cycle()
    after = sorted(world.usage.values(), reverse=True)
    assert after < before if moves else after == before
    assert world.cycle() == []


@settings(max_examples=40)
@given(fleets)
def test_urgent_moves_converge_and_each_minute_is_better(
    traffic: list[list[float]],
) -> None:
    world = Fleet.of(named(traffic), rules=replace(RULES, balance=replace(BALANCE, rest_s=0.0)))
    for _ in range(10):
        before = sorted(world.usage.values(), reverse=True)
        if not world.cycle():
            break
        assert sorted(world.usage.values(), reverse=True) < before
    assert world.cycle() == []


@given(fleets, capacities)
def test_the_plan_takes_what_is_proposed_or_ends_no_worse(
    traffic: list[list[float]], capacity: list[float]
) -> None:
    """It takes the heavy ones first, and a light one may be of no use any more after that."""
    world = Fleet.of(named(traffic), named(capacity), rules_of(replace(CALM, band=BALANCE.band)))
    proposed = world.look()
    outcome = plan(
        world.view(),
        world.decisions,
        placement=BalancePlacement(),
        placement_rules=PlacementRules(),
        budgets=WIDE,
    )
    taken = [each for each in outcome.decisions if isinstance(each, Transfer)]
    assert bool(taken) == bool(proposed)
    assert {each.bundle for each in taken} <= {each.bundle for each in proposed}
    before = sorted(world.usage.values(), reverse=True)
    for each in taken:
        world.carry(each.bundle, each.destination)
    assert sorted(world.usage.values(), reverse=True) <= before


@given(counts, seeds)
def test_no_proposal_crosses_a_limit(count: int, seed: int) -> None:
    view, dice = view_of(count, seed), np.random.Generator(np.random.PCG64(seed))
    kinds = ["usage", "mbytes_in", "mbytes_out", "msg_rate", "topics", "sessions"]
    table = "; ".join(
        f"b{number}:8080 {dice.choice(kinds)}={int(dice.choice([5, 20, 60, 200]))}"
        for number in range(count)
    )
    limits = BrokerLimits.parse(table)
    rules = replace(RULES, balance=replace(BALANCE, limits=limits))
    decisions = POLICY.shed(view, POLICY.observe(BalanceMemory(), view, rules), rules)
    now = view
    for move in moves_of(decisions):
        now = now.after(move)
        receiver = now.brokers[move.destination]
        assert limits.of(receiver.broker_id).excess(receiver.held) is None
    beyond = {
        each.subject
        for each in decisions
        if isinstance(each, Skip)
        and each.reason is Reason.CAPACITY
        # A broker that a limit of others keeps too full is another matter.
        and "times the mean usage" not in each.detail
    }
    for broker_id, broker in view.brokers.items():
        is_beyond = limits.of(broker_id).excess(broker.held) is not None
        assert (broker_id in beyond) == (is_beyond and not broker.is_draining)


def test_where_all_are_beyond_their_limits_the_reason_is_of_the_cluster() -> None:
    view = view_of(3, 1)
    rules = replace(RULES, balance=replace(BALANCE, limits=BrokerLimits.parse(".* topics=1")))
    decisions = POLICY.shed(view, POLICY.observe(BalanceMemory(), view, rules), rules)
    assert not moves_of(decisions)
    reported = [each for each in decisions if isinstance(each, Skip) and each.subject == "cluster"]
    assert [each.reason for each in reported][:1] == [Reason.CAPACITY]
    assert (
        "brokers are beyond their limits (loadBalancerBrokerLimits): no load moves"
        in reported[0].detail
    )
