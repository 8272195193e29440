from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import PlacementRules, SimpleRules, SimpleStrategy
from broker_ctl.core.strategies.placement.strategies import Choice
from broker_ctl.core.strategies.simple import Factors, QuotaBook, Rank, SimplePlacement, rank
from tests.support.clusters.views import BUNDLES, cluster

RULES = PlacementRules()
NONE = ResourceQuota(0.0, 0.0, 0.0, 0.0, 0.0)
NEW, *REST = BUNDLES


def node(
    broker_id: str, cpu: float = 0.0, *, bundles: int = 1, memory: float = 0.0, cores: int = 1
) -> BrokerView:
    """A broker with ``cpu`` percent of its CPU in use."""
    taken = 1 + sum(map(ord, broker_id)) % 3 * 5
    lines = {str(bundle): BundleStats() for bundle in REST[taken : taken + bundles]}
    usage = SystemUsage(
        cpu=ResourceUsage(cpu * cores, 100 * cores), memory=ResourceUsage(memory, 100)
    )
    return BrokerView(broker_id, BrokerLoad(broker_id, usage, lines), cpu / 100)


def book(*brokers: BrokerView, **allocated: ResourceQuota) -> QuotaBook:
    quotas = {one.broker_id: NONE for one in brokers} | allocated
    return QuotaBook(quotas, ResourceQuota(100.0, 100.0, 0.0, 0.0, 5.0), Factors(0.05, 25.0))


def choose(
    *brokers: BrokerView,
    strategy: SimpleStrategy = SimpleStrategy.LEAST_LOADED,
    seed: int = 1,
    owned_by: dict[Bundle, str] | None = None,
    **allocated: ResourceQuota,
) -> Choice:
    view = cluster(brokers, owners={NEW: None, **(owned_by or {})}, draw_seed=seed)
    policy = SimplePlacement(SimpleRules(strategy=strategy), book(*brokers, **allocated))
    return policy.select(view, NEW, [one.broker_id for one in brokers], RULES)


def test_the_emptiest_broker_wins_by_more_than_five_points() -> None:
    choice = choose(node("a", 40), node("b", 30), node("c", 36))
    assert (choice.broker_id, choice.reason) == ("b", Reason.LEAST_USAGE)


def test_within_five_points_memory_decides() -> None:
    # The load is that of the fullest resource: CPU here, and the memory of b is much lower.
    assert choose(node("a", 30, memory=29), node("b", 34, memory=5)).broker_id == "b"
    assert choose(node("a", 30, memory=29), node("b", 34, memory=25)).broker_id == "a"


def test_the_expected_need_of_bundles_counts_where_it_is_more() -> None:
    expected = ResourceQuota(400.0, 400.0, 0.0, 0.0, 0.0)  # 800 msg/s take 40 % of a core
    assert choose(node("a", 10), node("b", 30)).broker_id == "a"
    assert choose(node("a", 10), node("b", 30), a=expected).broker_id == "b"


def test_a_promise_counts_until_it_is_reported() -> None:
    # Each promise takes the default quota: 200 msg/s, 10 % of a core.
    promised = dict.fromkeys(REST[12:14], "a")
    assert choose(node("a", 10), node("b", 25)).broker_id == "a"
    assert choose(node("a", 10), node("b", 25), owned_by=promised).broker_id == "b"


def test_a_burst_of_choices_spreads() -> None:
    brokers = (node("a", 10), node("b", 10), node("c", 10))
    view = cluster(brokers, owners=dict.fromkeys((NEW, *REST[12:]), None))
    policy = SimplePlacement(SimpleRules(), book(*brokers))
    counts: Counter[str | None] = Counter()
    for bundle in REST[12:15]:
        choice = policy.select(view, bundle, ("a", "b", "c"), RULES)
        assert choice.broker_id is not None
        counts[choice.broker_id] += 1
        view = view.after(Assign(bundle, choice.broker_id, choice.reason, choice.detail))
    assert counts == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize(("busy", "expected"), [(50.0, "busy"), (50.1, "idle")])
def test_an_idle_broker_is_taken_once_the_best_one_is_no_longer_underloaded(
    busy: float, expected: str
) -> None:
    assert choose(node("busy", busy), node("idle", bundles=0)).broker_id == expected


def test_where_nobody_owns_anything_an_idle_broker_is_drawn() -> None:
    idle = [node(name, bundles=0) for name in ("a", "b", "c")]
    drawn = {choose(*idle, seed=seed).broker_id for seed in range(30)}
    assert drawn == {"a", "b", "c"}


def test_above_the_overload_the_one_with_most_room_wins() -> None:
    # 10 % of room for twenty bundles is more than 12 % of room for ten.
    choice = choose(node("a", 90, cores=8), node("b", 88))
    assert (choice.broker_id, choice.reason) == ("a", Reason.ALL_OVERLOADED)


def test_where_all_are_full_lots_decide() -> None:
    full = [node("a", 100), node("b", 120)]
    drawn = {choose(*full, seed=seed).broker_id for seed in range(30)}
    assert drawn == {"a", "b"}
    assert choose(*full).reason is Reason.DRAWN


def test_least_messages_counts_what_is_expected_and_not_what_is_used() -> None:
    choice = choose(
        node("a", 10),
        node("b", 40),
        strategy=SimpleStrategy.LEAST_MSG_RATE,
        a=ResourceQuota(50.0, 50.0, 0.0, 0.0, 0.0),
        b=ResourceQuota(10.0, 10.0, 0.0, 0.0, 0.0),
    )
    assert (choice.broker_id, choice.reason) == ("b", Reason.LEAST_MSG_RATE)
    assert choice.detail == "20 msg/s expected, the least of 2"


@pytest.mark.parametrize(
    ("strategy", "detail"),
    [
        (SimpleStrategy.LEAST_MSG_RATE, "0 msg/s expected, the only one to choose from"),
        (SimpleStrategy.LEAST_LOADED, "the only one to choose from; a at 10.0 %"),
    ],
)
def test_one_broker_alone_is_compared_with_nobody(strategy: SimpleStrategy, detail: str) -> None:
    assert choose(node("a", 10), strategy=strategy).detail == detail


def test_weighted_lots_favour_capacity_and_the_square_of_what_is_free() -> None:
    # 50 % and 0 % of what is used: a quarter, and all, of the same capacity.
    brokers = (node("a", 50), node("b", 0))
    drawn = Counter(
        choose(*brokers, strategy=SimpleStrategy.WEIGHTED_RANDOM, seed=seed).broker_id
        for seed in range(1000)
    )
    assert drawn["a"] / 1000 == pytest.approx(0.2, abs=0.04)


def test_weighted_lots_among_full_brokers_are_equal() -> None:
    full = (node("a", 100), node("b", 100))
    drawn = {
        choose(*full, strategy=SimpleStrategy.WEIGHTED_RANDOM, seed=seed).broker_id
        for seed in range(30)
    }
    assert drawn == {"a", "b"}


@pytest.mark.parametrize("strategy", SimpleStrategy)
def test_without_candidates_there_is_no_choice(strategy: SimpleStrategy) -> None:
    assert choose(strategy=strategy).reason is Reason.NO_BROKER


@pytest.mark.parametrize("strategy", SimpleStrategy)
@given(
    st.lists(st.floats(0, 150), min_size=1, max_size=3),
    st.integers(-(2**70), 2**70),
)
def test_the_choice_is_one_of_the_candidates_and_the_same_in_any_order(
    strategy: SimpleStrategy, cpus: list[float], seed: int
) -> None:
    brokers = [node(name, cpu) for name, cpu in zip("abc", cpus, strict=False)]
    names = [one.broker_id for one in brokers]
    view = cluster(brokers, owners={NEW: None}, draw_seed=seed)
    policy = SimplePlacement(SimpleRules(strategy=strategy), book(*brokers))
    first = policy.select(view, NEW, names, RULES)
    assert first.broker_id in names
    assert policy.select(view, NEW, names[::-1], RULES) == first


def test_the_scarcest_resource_decides_the_capacity() -> None:
    one = rank(node("a", cores=8), book(node("a")))
    # 800 % of a core hold 80 bundles of 200 msg/s, 100 MiB hold 20 of 5 MiB.
    assert one.capacity == pytest.approx(20.0)
    unknown = replace(node("a").load, usage=SystemUsage())
    assert rank(replace(node("a"), load=unknown), book(node("a"))).capacity == 0.0


def test_no_two_brokers_are_each_before_the_other() -> None:
    ranks = [
        Rank("x", load, cpu, memory, 0.0, 0.0, 0.0, 0.0, is_idle=False)
        for load in (10.0, 14.0, 20.0)
        for cpu in (0.0, 10.0)
        for memory in (0.0, 9.0)
    ]
    for one, other in combinations(ranks, 2):
        assert not (one.is_before(other) and other.is_before(one))
