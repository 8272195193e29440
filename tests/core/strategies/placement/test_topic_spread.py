"""Partitions of one topic are spread over brokers, and no move exceeds the cap."""

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Decision, Reason, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.names import NO_TOPIC_PARTITIONS, Topic, TopicPartitions
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.filters import broken_limits, cap_violations
from broker_ctl.core.strategies.placement.pipeline import filter_brokers, place
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.support.clusters.views import BUNDLES, NAMESPACE, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
ALL = ["b1", "b2", "b3"]
WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=99.0)
TOPIC = f"persistent://{NAMESPACE}/orders"


def at(*bundles: int, topic: str = TOPIC) -> TopicPartitions:
    """One partition of the topic in each of these bundles."""
    hashes = sorted(BUNDLES[number].range.low for number in bundles)
    ring = hashes, [topic] * len(hashes)
    return TopicPartitions({NAMESPACE: {topic: len(hashes)}}, {NAMESPACE: ring})


def seen(
    topics: TopicPartitions, owners: dict[int, str | None], usages: dict[str, float]
) -> ClusterView:
    """Bundles by number, with what the leader knows of topics."""
    reports = [
        broker(
            name,
            usage,
            {BUNDLES[number]: stats(1) for number, owner in owners.items() if owner == name},
        )
        for name, usage in usages.items()
    ]
    free = {BUNDLES[number]: None for number, owner in owners.items() if owner is None}
    return cluster(reports, owners=free, constraints=Constraints(topics=topics))


def three(topics: TopicPartitions) -> ClusterView:
    """The first bundle is free; the next two are at b1, the fourth at b2; b3 is the fullest."""
    owners = {0: None, 1: "b1", 2: "b1", 3: "b2"}
    return seen(topics, owners, {"b1": 0.1, "b2": 0.2, "b3": 0.3})


def test_what_a_broker_has_of_each_topic_is_in_the_view() -> None:
    view = three(at(0, 1, 2, 3))
    held = {name: dict(each.partitions) for name, each in view.brokers.items()}
    assert held == {"b1": {TOPIC: 2}, "b2": {TOPIC: 1}, "b3": {}}
    moved = view.after(Unload(B, "b1", Reason.ADMIN, "")).after(Assign(B, "b3", Reason.UNOWNED, ""))
    held = {name: dict(each.partitions) for name, each in moved.brokers.items()}
    assert held == {"b1": {TOPIC: 1}, "b2": {TOPIC: 1}, "b3": {TOPIC: 1}}


def test_a_bundle_goes_where_its_topics_have_no_more_than_their_share() -> None:
    assert place(three(NO_TOPIC_PARTITIONS), A, ALL, BalancePlacement(), PlacementRules()) == (
        place(three(at(1, 2)), A, ALL, BalancePlacement(), PlacementRules())
    ), "it has no partition"
    choice = place(three(at(0, 1, 2, 3)), A, ALL, BalancePlacement(), PlacementRules())
    # Four partitions on three brokers: two are a share, so b2 has room for one more.
    assert choice.broker_id == "b2"
    assert "b1 would have 1 partitions beyond an even share, others 0" in choice.detail
    assert place(three(at(0, 1, 3)), A, ALL, BalancePlacement(), PlacementRules()).broker_id == "b3"


def test_a_broker_at_the_cap_receives_no_more_of_the_topic() -> None:
    view, rules = three(at(0, 1, 2, 3)), PlacementRules(topic_cap=2)
    found = filter_brokers(view, A, ALL, rules)
    assert found.feasible == ("b2", "b3")
    assert found.rejected["b1"].reason is Reason.TOPIC_SPREAD
    assert found.rejected["b1"].words == f"would have 3 partitions of {TOPIC}, at most 2"
    assert filter_brokers(view, A, ALL, PlacementRules(topic_cap=1)).feasible == ("b3",)
    assert filter_brokers(view, A, ALL, PlacementRules(topic_cap=0)).feasible == tuple(ALL)


def test_what_nobody_serves_is_served_though_all_are_at_the_cap() -> None:
    view, rules = three(at(0, 1, 2, 3)), PlacementRules(topic_cap=1)
    assert filter_brokers(view, A, ["b1", "b2"], rules).feasible == ("b1", "b2")
    # What is served stays, and goes nowhere else.
    assert filter_brokers(view, B, ["b1", "b2"], rules).feasible == ("b1",)
    assert filter_brokers(view, B, ["b2"], rules).feasible == ()


def test_brokers_above_the_cap_are_named() -> None:
    view = three(at(0, 1, 2, 3))
    assert list(cap_violations(view, 1)) == [("b1", TOPIC, 2)]
    assert list(cap_violations(view, 0)) == list(cap_violations(view, 2)) == []
    limits = PlacementRules().limits
    assert broken_limits(view, limits, 1) == {
        "b1": (
            Reason.TOPIC_SPREAD,
            f"2 partitions of {TOPIC}, at most 1 (loadBalancerTopicPartitionsPerBroker)",
        )
    }


@given(
    st.lists(st.sampled_from([None, *ALL]), min_size=16, max_size=16),
    st.sets(st.integers(0, 15), min_size=2),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_no_plan_exceeds_the_cap(
    owners: list[str | None], parts: set[int], cap: int, dice: Random
) -> None:
    topics = at(*parts)
    usages = {name: dice.random() for name in ALL}
    view = seen(topics, dict(enumerate(owners)), usages)
    proposals: list[Decision] = [
        Unload(BUNDLES[number], owner, Reason.DRAIN, "")
        for number, owner in enumerate(owners)
        if owner is not None
    ]
    rules = PlacementRules(topic_cap=cap)
    found = plan(view, proposals, placement=BalancePlacement(), placement_rules=rules, budgets=WIDE)
    now = view
    for each in found.decisions:
        assert isinstance(each, Transfer)
        now = now.after(each)
        held = now.brokers[each.destination].partitions
        assert all(held[topic] <= cap for topic in topics.of(each.bundle))
    # What the view says is what there is.
    carried = Counter(
        now.carrier(BUNDLES[number]) for number in parts if now.carrier(BUNDLES[number])
    )
    assert {name: each.partitions.get(TOPIC, 0) for name, each in now.brokers.items()} == {
        name: carried[name] for name in ALL
    }


def test_a_bundle_of_another_namespace_is_not_concerned() -> None:
    other = replace(three(at(0, 1)), constraints=Constraints(topics=NO_TOPIC_PARTITIONS))
    assert filter_brokers(other, A, ALL, PlacementRules(topic_cap=1)).feasible == tuple(ALL)
    assert Topic.parse(TOPIC).namespace == NAMESPACE
