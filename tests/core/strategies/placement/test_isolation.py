from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.names import NON_PERSISTENT
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, isolation
from tests.support.clusters.views import BUNDLES, broker, cluster

RULES = PlacementRules()
NEW = BUNDLES[0]
P1, P2, S1, X1 = "p-1:8080", "p-2:8080", "s-1:8080", "x-1:8080"


def policy(min_available: int = 1, namespaces: str = "tenant/ns") -> IsolationPolicy:
    return IsolationPolicy("gold", (namespaces,), ("p-.*",), ("s-.*",), min_available)


def filtered(
    *policies: IsolationPolicy,
    brokers: tuple[BrokerView, ...] = (),
    candidates: tuple[str, ...] | None = None,
) -> FilterResult:
    reports = brokers or tuple(broker(broker_id, 0.1) for broker_id in (P1, P2, S1, X1))
    view = replace(cluster(reports, owners={NEW: None}), constraints=Constraints(policies))
    return isolation(view, NEW, candidates or view.receivers(RULES.report_ttl_s), RULES)


def test_a_namespace_with_a_policy_lives_on_its_primaries() -> None:
    left = filtered(policy())
    assert left.feasible == (P1, P2)
    assert {why.reason for why in left.rejected.values()} == {Reason.ISOLATION}
    assert left.rejected[S1].words == (
        "is only secondary of policy gold (2 of at least 1 primaries are available)"
    )
    assert left.rejected[X1].words.startswith("is neither primary nor secondary of policy gold")


@pytest.mark.parametrize(("min_available", "staying"), [(2, (P1, P2)), (3, (P1, P2, S1))])
def test_secondaries_help_out_while_too_few_primaries_are_available(
    min_available: int, staying: tuple[str, ...]
) -> None:
    assert filtered(policy(min_available)).feasible == staying


def test_a_primary_that_drains_is_not_available() -> None:
    brokers = (broker(P1, 0.1, is_draining=True), broker(S1, 0.1), broker(X1, 0.1))
    assert filtered(policy(), brokers=brokers).feasible == (S1,)


def test_primaries_are_counted_in_the_cluster_and_not_among_the_candidates() -> None:
    """One that gives the bundle up, or has no room, is available nevertheless."""
    left = filtered(policy(), candidates=(S1, X1))
    assert left.feasible == ()
    assert left.rejected.keys() == {S1, X1}


def test_a_namespace_without_a_policy_shuns_primaries_and_shares_secondaries() -> None:
    left = filtered(policy(namespaces="other/.*"))
    assert left.feasible == (S1, X1)
    assert left.rejected[P1].words == "is a primary of policy gold, for others only"


def test_the_kind_of_topics_is_looked_at_for_shared_brokers_only() -> None:
    picky = (
        replace(broker(P1, 0.1), takes_persistent=False),
        replace(broker(X1, 0.1), takes_persistent=False),
        replace(broker(S1, 0.1), takes_non_persistent=False),
    )
    assert filtered(policy(), brokers=picky).feasible == (P1,)
    left = filtered(policy(namespaces="other/.*"), brokers=picky)
    assert left.feasible == (S1,)
    assert left.rejected[X1] == (Reason.TOPIC_KIND, "takes no persistent topics")


def test_brokers_for_non_persistent_topics_will_do_where_there_are_no_others() -> None:
    one_kind = replace(broker(P1, 0.1), takes_persistent=False)
    neither = replace(broker(X1, 0.1), takes_persistent=False, takes_non_persistent=False)
    left = filtered(brokers=(one_kind, neither))
    assert left.feasible == (P1,)
    assert left.rejected[X1].words == "takes neither kind of topics"


def test_a_non_persistent_topic_gets_a_broker_that_takes_such_topics() -> None:
    picky = (
        replace(broker(P1, 0.1), takes_non_persistent=False),
        replace(broker(X1, 0.1), takes_persistent=False),
    )
    asked = replace(RULES, domain=NON_PERSISTENT)
    left = isolation(cluster(picky, owners={NEW: None}), NEW, (P1, X1), asked)
    assert left.feasible == (X1,)
    assert left.rejected[P1] == (Reason.TOPIC_KIND, "takes no non-persistent topics")


def test_a_broker_for_persistent_topics_is_not_said_to_take_none() -> None:
    picky = (
        replace(broker(P1, 0.1), takes_non_persistent=False),
        replace(broker(X1, 0.1), takes_persistent=False, takes_non_persistent=False),
    )
    asked = replace(RULES, domain=NON_PERSISTENT)
    left = isolation(cluster(picky, owners={NEW: None}), NEW, (P1, X1), asked)
    assert left.feasible == ()
    assert left.rejected[P1].words == "takes no non-persistent topics"
    assert left.rejected[X1].words == "takes neither kind of topics"


def test_without_constraints_everybody_stays() -> None:
    assert filtered() == FilterResult((P1, P2, S1, X1))
