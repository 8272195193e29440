import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, home_broker, pinned
from tests.support.clusters.views import cluster

B1, B2, B3 = "b1:8080", "b2:8080", "b3:8080"


def left(name: str, *candidates: str) -> FilterResult:
    bundle: Bundle = Ring.even(Namespace.parse(name), 1).bundles[0]
    return pinned(cluster([]), bundle, candidates, PlacementRules())


@pytest.mark.parametrize("tenant", ["pulsar", "sla-monitor"])
def test_a_pinned_namespace_goes_to_its_broker_only(tenant: str) -> None:
    filtered = left(f"{tenant}/{B2}", B1, B2, B3)
    assert filtered.feasible == (B2,)
    assert filtered.rejected[B1] == (Reason.PINNED, f"is not {B2}, which it belongs to")
    assert home_broker(Namespace(tenant, B2)) == B2


def test_no_broker_is_feasible_for_the_heartbeat_of_an_absent_broker() -> None:
    assert left(f"pulsar/{B2}", B1, B3).feasible == ()


def test_anybody_may_have_the_sla_namespace_of_a_broker_that_is_away() -> None:
    assert left(f"sla-monitor/{B2}", B1, B3) == FilterResult((B1, B3))


def test_other_namespaces_are_of_nobody() -> None:
    assert left("pulsar/system", B1, B3) == FilterResult((B1, B3))
    assert home_broker(Namespace("pulsar", "system")) is None
