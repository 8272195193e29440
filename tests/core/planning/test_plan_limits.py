"""The moves of a plan exceed no limit and no cap on the way, whatever else is under way."""

from dataclasses import replace

from broker_ctl.core.cluster.decisions import Assign, Decision, Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle, TopicPartitions
from broker_ctl.core.planning.decide import CycleRules, is_cut_short, plan_proposals
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.support.clusters.views import BUNDLES, NAMESPACE, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
TOPIC = f"persistent://{NAMESPACE}/orders"
WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=99.0)


def rules(table: str = "", topic_cap: int = 0) -> CycleRules:
    placement = PlacementRules(limits=BrokerLimits.parse(table), topic_cap=topic_cap)
    return CycleRules(BalancePlacement(), placement_rules=placement, budgets=WIDE)


def seen(owners: dict[str, list[Bundle]], moves: tuple[InFlight, ...] = ()) -> ClusterView:
    """Every bundle has ten topics, and a partition of the topic."""
    hashes = sorted(bundle.range.low for bundle in (A, B, C, D))
    topics = TopicPartitions({NAMESPACE: {TOPIC: 4}}, {NAMESPACE: (hashes, [TOPIC] * len(hashes))})
    reports = [
        broker(name, 0.1, {bundle: stats(1) for bundle in bundles})
        for name, bundles in owners.items()
    ]
    # No move comes near to the fullest broker: usage lets all go at once.
    reports.append(broker("full", 0.9, {BUNDLES[9]: stats(99)}))
    return cluster(reports, constraints=Constraints(topics=topics), moves=moves)


def move(bundle: Bundle, source: str, destination: str) -> Transfer:
    return Transfer(bundle, source, destination, Reason.DRAIN, "", NO_LOAD, NO_LOAD, NO_LOAD)


ROTATION = (move(A, "b1", "b3"), move(B, "b2", "b1"))


def test_a_move_to_a_broker_at_its_limit_waits_for_the_one_that_leaves_it() -> None:
    view = seen({"b1": [A, C], "b2": [B], "b3": [D]})
    for limited in (rules(".* topics=20"), rules(topic_cap=2)):
        found = plan_proposals(view, ROTATION, limited)
        first, second = found.decisions
        assert (first.bundles[0], second.bundles[0]) == (A, B)
        assert found.order.waits == {second: (first,)}
    free = plan_proposals(view, ROTATION, rules())
    assert (len(free.decisions), free.order.waits) == (2, {})


def test_a_move_to_a_broker_that_a_bundle_has_not_left_yet_is_postponed() -> None:
    """Its place is promised, and not free; the next cycle comes as soon as moves allow."""
    leaving = InFlight(A, "b1", "b3")
    view = seen({"b1": [A, C], "b2": [B], "b3": [D]}, (leaving,))
    for limited, reason, words in (
        (rules("b1 topics=20"), Reason.CAPACITY, "the limit of topics"),
        (rules(topic_cap=2), Reason.TOPIC_SPREAD, f"the cap of partitions of {TOPIC}"),
    ):
        found = plan_proposals(view, [move(B, "b2", "b1")], limited)
        (skip,) = found.skipped
        assert (found.decisions, skip.subject, skip.reason) == ((), str(B), reason)
        assert f"b1 would exceed {words} until bundles that are leaving it have left" == skip.detail
        assert found.after == found.before
        assert (found.order.to_row()["postponed_moves"], is_cut_short(found)) == (1, True)
    left = seen({"b1": [C], "b2": [B], "b3": [A, D]})
    assert len(plan_proposals(left, [move(B, "b2", "b1")], rules(topic_cap=2)).decisions) == 1


def test_what_is_placed_takes_its_room_at_once() -> None:
    view = seen({"b1": [A], "b2": [B], "b3": [D]})
    free = replace(view.bundles[A], bundle=C, owner=None)
    view = replace(view, bundles={**view.bundles, C: free})
    proposals: list[Decision] = [Assign(C, "b1", Reason.UNOWNED, ""), *ROTATION]
    found = plan_proposals(view, proposals, rules(".* topics=20"))
    assert [each.kind for each in found.decisions] == ["assign", "transfer", "transfer"]
    _, first, second = found.decisions
    assert found.order.waits == {second: (first,)}


def test_usage_compares_in_the_size_of_the_receiver() -> None:
    """A broker of twice the size has room for what a smaller one has not."""
    view = seen({"b1": [A], "b2": [B], "b3": [D]})
    large = replace(
        view.brokers["b1"], expected=replace(view.brokers["b1"].expected, size_ratio=2.0)
    )
    view = replace(view, brokers={**view.brokers, "b1": large})
    usage = view.bundles[B].load_vector.usage_ratio
    assert usage > 0
    percent = round(100 * (large.expected.usage_ratio + 0.6 * usage), 6)
    limited = rules(f"b1 usage={percent}")
    found = plan_proposals(view, [move(B, "b2", "b1")], limited)
    assert (len(found.decisions), found.skipped) == (1, ())
