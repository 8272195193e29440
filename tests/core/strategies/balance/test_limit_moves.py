"""A broker beyond a limit or a cap gives for it, and says so where nobody has room."""

from collections.abc import Mapping
from dataclasses import replace

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.names import TopicPartitions
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules, SheddingRules
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.core.strategies.balance.fleets import CALM, fleet, rules_of, shed, transfers
from tests.support.clusters.views import BUNDLES, NAMESPACE

KEY = "loadBalancerBrokerLimits"
NOTHING = f"({KEY}): until below, it receives nothing"


WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=99.0)
# Ten topics in each bundle; nobody is too full.
EVEN = {"b1": [100, 100, 20], "b2": [200], "b3": [210]}


def limited(table: str) -> SheddingRules:
    return rules_of(CALM, limits=BrokerLimits.parse(table))


def capacity_skips(view: ClusterView, rules: SheddingRules) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in shed(view, rules):
        if isinstance(each, Skip) and each.reason is Reason.CAPACITY:
            found.setdefault(each.subject, []).append(each.detail)
    return found


def test_a_broker_that_is_not_too_full_gives_for_its_limit() -> None:
    view, rules = fleet(EVEN), limited("b1 topics=25")
    assert transfers(shed(view, rules_of(CALM))) == []
    (move,) = transfers(shed(view, rules))
    # Of equal bundles the lightest, to the broker that is least full then.
    assert (move.bundle, move.source, move.destination) == (BUNDLES[2], "b1", "b2")
    assert move.reason is Reason.CAPACITY
    assert move.detail == "b1 has 30 topics, its limit is 25 topics"
    assert capacity_skips(view, rules) == {"b1": [f"30 topics, its limit is 25 topics {NOTHING}"]}


def test_the_plan_carries_it_out_though_it_makes_a_busier_broker_busier() -> None:
    view, rules = fleet({"b1": [40, 40, 20], "b2": [120], "b3": [130]}), limited("b1 topics=25")
    found = plan(
        view,
        shed(view, rules),
        placement=BalancePlacement(),
        placement_rules=PlacementRules(limits=rules.balance.limits),
        budgets=WIDE,
    )
    assert [each.destination for each in transfers(found.decisions)] == ["b2"]
    now = view
    for each in found.decisions:
        now = now.after(each)
    assert not transfers(shed(replace(now, bundles=now.bundles), rules))


def test_where_no_other_has_room_it_is_said_and_nothing_moves() -> None:
    view, rules = fleet(EVEN), limited("b1 topics=25; .* topics=15")
    assert transfers(shed(view, rules)) == []
    words = "30 topics, its limit is 25 topics"
    assert capacity_skips(view, rules) == {
        "b1": [
            f"{words} {NOTHING}",
            f"{words}, until another broker has room for what it would give",
        ]
    }


def test_where_all_are_full_nothing_is_shed_and_the_cluster_says_it() -> None:
    view, rules = fleet(EVEN), limited(".* topics=5")
    assert transfers(shed(view, rules)) == []
    found = capacity_skips(view, rules)
    assert found["cluster"] == [
        f"all 3 brokers are beyond their limits ({KEY}): no load moves until there are more brokers"
    ]
    assert [len(found[name]) for name in ("b1", "b2", "b3")] == [1, 1, 1]


def test_what_is_too_full_is_relieved_though_another_limit_cannot_be_kept() -> None:
    view = fleet({"b1": [500, 100], "b2": [100], "b3": [80]})
    moves = transfers(shed(view, limited("b2 sessions=1; b1 usage=90; b3 usage=90")))
    assert [(each.source, each.reason) for each in moves] in (
        [("b2", Reason.CAPACITY)],
        [("b1", Reason.IMBALANCE)],
    )


def test_a_broker_above_a_topics_cap_gives_partitions() -> None:
    topic = f"persistent://{NAMESPACE}/orders"
    hashes = [bundle.range.low for bundle in BUNDLES[:3]]
    topics = TopicPartitions({NAMESPACE: {topic: 3}}, {NAMESPACE: (hashes, [topic] * 3)})
    view = fleet(EVEN, constraints=Constraints(topics=topics))
    assert transfers(shed(view, rules_of(CALM))) == []
    (move,) = transfers(shed(view, rules_of(CALM, topic_cap=2)))
    assert (move.bundle, move.source, move.destination) == (BUNDLES[2], "b1", "b2")
    assert move.reason is Reason.TOPIC_SPREAD
    assert (
        move.detail
        == f"b1 has 3 partitions of {topic}, at most 2 (loadBalancerTopicPartitionsPerBroker)"
    )
