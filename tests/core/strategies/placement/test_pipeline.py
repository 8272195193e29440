from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import BrokerView, ClusterView, InFlight
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.core.strategies.placement.strategies import (
    PLACEMENT,
    Choice,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementPolicy,
)
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

A, B, NEW, OTHER = BUNDLES[:4]
RULES = PlacementRules(max_topics=100)


def full(broker_id: str, usage_ratio: float, msg_rate: float) -> BrokerView:
    return broker(broker_id, usage_ratio, {A: stats(1, topics=101, msg_rate=msg_rate)})


def roomy(broker_id: str, usage_ratio: float, msg_rate: float) -> BrokerView:
    return broker(broker_id, usage_ratio, {B: stats(1, topics=100, msg_rate=msg_rate)})


def placed(view: ClusterView) -> Choice:
    return place(view, NEW, view.receivers(1800), LeastLongTermMessageRate(), RULES)


def test_a_broker_with_too_many_topics_is_passed_over() -> None:
    view = cluster([full("b1", 0.1, 1), roomy("b2", 0.1, 50)], owners={NEW: None})
    assert placed(view).broker_id == "b2"


def test_where_all_have_too_many_topics_they_are_asked_after_all() -> None:
    assert placed(cluster([full("b1", 0.1, 1)], owners={NEW: None})).broker_id == "b1"


def test_where_only_an_overloaded_broker_has_room_the_others_are_asked_after_all() -> None:
    view = cluster([full("b1", 0.1, 50), roomy("b2", 0.9, 1)], owners={NEW: None})
    assert placed(view).broker_id == "b1"


def test_a_bundle_that_is_on_its_way_goes_there() -> None:
    reports = [full("b1", 0.1, 1), roomy("b2", 0.1, 50)]
    view = cluster(reports, owners={NEW: None}, moves=[InFlight(NEW, "b1", "b2")])
    assert (placed(view).broker_id, placed(view).reason) == ("b2", Reason.RESERVED)


def test_a_bundle_whose_receiver_died_on_the_way_is_placed_again() -> None:
    view = cluster([full("b1", 0.1, 1)], owners={NEW: None}, moves=[InFlight(NEW, "b1", "gone")])
    assert placed(view).broker_id == "b1"


def test_without_brokers_none_is_chosen() -> None:
    assert placed(cluster([], owners={NEW: None})).broker_id is None


# The filters together.

ISOLATED = IsolationPolicy("gold", ("tenant/ns",), ("p.*",))


def at(usage_ratio: float, version: str = "1.0", topics: int = 1) -> BrokerView:
    """A broker whose id is given by `of`."""
    report = broker("", usage_ratio, {OTHER: stats(1, topics=topics)})
    return replace(report, load=replace(report.load, version=version))


def of(constraints: Constraints = NO_CONSTRAINTS, **brokers: BrokerView) -> ClusterView:
    reports = [replace(report, broker_id=broker_id) for broker_id, report in brokers.items()]
    view = cluster(reports, owners={NEW: None, OTHER: None})
    topics = {b: LoadVector(view.brokers[b].usage_ratio, 0, 0, report.load.total.topics)
              for b, report in view.brokers.items()}  # fmt: skip
    seen = {b: replace(report, expected=topics[b]) for b, report in view.brokers.items()}
    return replace(view, brokers=seen, constraints=constraints)


def chosen(view: ClusterView, rules: PlacementRules = RULES) -> Choice:
    return place(view, NEW, view.receivers(1800), LeastResourceUsageWithWeight(), rules)


def test_a_choice_names_the_broker_that_was_passed_over_and_the_reason() -> None:
    choice = chosen(of(b1=at(0.1, topics=101), b2=at(0.5)))
    assert choice.broker_id == "b2"
    assert choice.detail.endswith("; b1 has 101 topics, more than 100")


def test_of_many_brokers_that_were_passed_over_only_some_are_named() -> None:
    full_ones = {f"b{n}": at(0.1, topics=101) for n in range(8)}
    choice = chosen(of(NO_CONSTRAINTS, b9=at(0.5), **full_ones))
    assert choice.detail.count("more than 100") == 3
    assert choice.detail.endswith("; 5 more passed over")


def test_where_a_policy_leaves_nobody_the_answer_says_so() -> None:
    choice = chosen(of(Constraints((ISOLATED,)), b1=at(0.1), b2=at(0.2)))
    assert (choice.broker_id, choice.reason) == (None, Reason.ISOLATION)
    assert "b2 is neither primary nor secondary of policy gold" in choice.detail


def test_a_draining_broker_receives_nothing_even_as_the_only_candidate() -> None:
    view = of(b1=replace(at(0.1), is_draining=True), b2=at(0.9))
    choice = place(view, NEW, ("b1", "b2", "gone"), LeastResourceUsageWithWeight(), RULES)
    assert choice.broker_id == "b2"
    choice = place(view, NEW, ("b1",), LeastResourceUsageWithWeight(), RULES)
    assert (choice.broker_id, choice.reason) == (None, Reason.DRAINING)


def test_versions_that_cannot_be_compared_bring_back_all_that_are_allowed() -> None:
    """As in Pulsar the brokers with too many topics come back with them."""
    rules = replace(RULES, prefers_later_versions=True)
    assert chosen(of(b1=at(0.1, "?", topics=101), b2=at(0.5)), rules).broker_id == "b2"
    view = of(b1=at(0.1, "1.0", topics=101), b2=at(0.5, "?"), b3=at(0.5))
    assert chosen(view, rules).broker_id == "b1"
    assert chosen(view).broker_id != "b1"


def test_where_only_an_overloaded_broker_is_preferred_the_others_are_asked_after_all() -> None:
    rules = replace(RULES, prefers_later_versions=True)
    assert chosen(of(b1=at(0.1, "1.0"), b2=at(0.85, "2.0")), rules).broker_id == "b2"
    assert chosen(of(b1=at(0.1, "1.0"), b2=at(0.86, "2.0")), rules).broker_id == "b1"


def test_even_an_overloaded_broker_is_taken_before_a_forbidden_one() -> None:
    view = of(Constraints((ISOLATED,)), b1=at(0.1), p1=at(0.99))
    assert chosen(view).broker_id == "p1"


def test_a_heartbeat_goes_to_its_broker_past_every_policy() -> None:
    (heartbeat,) = Ring.even(Namespace("pulsar", "b:1"), 1).bundles
    everything = IsolationPolicy("gold", (".*",), ("p.*",))
    reports = [broker("b:1", 0.99), broker("p:1", 0.1)]
    view = replace(cluster(reports), constraints=Constraints((everything,)))
    choice = place(view, heartbeat, ("b:1", "p:1"), LeastLongTermMessageRate(), RULES)
    assert (choice.broker_id, choice.reason) == ("b:1", Reason.PINNED)
    choice = place(view, heartbeat, ("p:1",), LeastLongTermMessageRate(), RULES)
    assert (choice.broker_id, choice.reason) == (None, Reason.PINNED)


def test_bundles_that_are_never_shed_are_placed_in_turn() -> None:
    rules = replace(RULES, excluded_namespaces=frozenset({NEW.namespace}))
    assert chosen(of(b1=at(0.1), b2=at(0.5)), rules).reason is Reason.ROUND_ROBIN


IDS = ("p1", "p2", "s1", "x1", "x2")
SHAPES = {
    broker_id: st.builds(
        at, st.floats(0, 1.2), st.sampled_from(["1.0", "2.0", "?"]), st.integers(0, 200)
    )
    for broker_id in IDS
}
POLICIES = st.builds(
    IsolationPolicy,
    st.just("gold"),
    st.sampled_from([("tenant/ns",), ("other/.*",)]),
    st.just(("p.*",)),
    st.just(("s.*",)),
    st.integers(0, 4),
)
OPTIONS = st.builds(
    PlacementRules,
    max_topics=st.just(100),
    is_spread_evenly=st.booleans(),
    has_failure_domains=st.booleans(),
    prefers_later_versions=st.booleans(),
)
DOMAINS = st.dictionaries(st.sampled_from(IDS), st.sampled_from(["r1", "r2"]))
CONSTRAINTS = st.builds(
    Constraints,
    st.lists(POLICIES, max_size=1).map(tuple),
    DOMAINS,
    st.sampled_from([{}, {NEW.namespace: "g"}]),
)
STRATEGIES = st.sampled_from(list(PLACEMENT.entries.values()))


@given(
    st.builds(of, CONSTRAINTS, **SHAPES),
    OPTIONS,
    st.sets(st.sampled_from(IDS), min_size=1),
    STRATEGIES,
    st.integers(),
)
def test_under_all_rules_the_choice_is_an_allowed_candidate_and_equal_for_equal_seeds(
    seen: ClusterView,
    rules: PlacementRules,
    candidates: set[str],
    policy: PlacementPolicy,
    seed: int,
) -> None:
    view = replace(seen, draw_seed=seed)
    choice = place(view, NEW, sorted(candidates), policy, rules)
    # The detail follows the order of the candidates; the choice does not.
    again = place(view, NEW, sorted(candidates, reverse=True), policy, rules)
    assert (again.broker_id, again.reason) == (choice.broker_id, choice.reason)
    allowed = set(candidates)
    for isolated in view.constraints.isolation:
        if isolated.covers(NEW.namespace):
            kinds = ("p", "s") if isolated.min_available > 2 else ("p",)
            allowed = {broker_id for broker_id in candidates if broker_id.startswith(kinds)}
        else:
            allowed = {broker_id for broker_id in candidates if not broker_id.startswith("p")}
    assert choice.broker_id in allowed if allowed else choice.broker_id is None
