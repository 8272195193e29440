from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import RoundRobin
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

POLICY = RoundRobin()
RULES = PlacementRules()


def test_brokers_receive_in_turn_whatever_their_load() -> None:
    view = cluster(
        [broker("b0", 0.99, {BUNDLES[15]: stats(1)}), broker("b1", 0.1), broker("b2", 0.5)],
        owners=dict.fromkeys(BUNDLES[:15]),
    )
    received: list[str] = []
    for bundle in BUNDLES[:7]:
        choice = POLICY.select(view, bundle, ("b2", "b0", "b1"), RULES)
        assert choice.broker_id is not None
        assert choice.reason is Reason.ROUND_ROBIN
        received.append(choice.broker_id)
        view = view.after(Assign(bundle, choice.broker_id, Reason.UNOWNED, ""))
    # One bundle is owned already: its turn is over.
    assert received == ["b1", "b2", "b0", "b1", "b2", "b0", "b1"]


def test_moves_go_in_turn_too() -> None:
    """A move adds nothing to the cluster, but one to those that may receive it."""
    lines = {bundle: stats(1) for bundle in BUNDLES[:6]}
    view = cluster([broker("b0", 0.9, lines), broker("b1", 0.1), broker("b2", 0.1)])
    received: list[str | None] = []
    for bundle in BUNDLES[:4]:
        choice = POLICY.select(view, bundle, ("b1", "b2"), RULES)
        assert choice.broker_id is not None
        received.append(choice.broker_id)
        view = view.after(Assign(bundle, choice.broker_id, Reason.UNOWNED, ""))
    assert received == ["b1", "b2", "b1", "b2"]


def test_without_candidates_no_broker_is_chosen() -> None:
    assert POLICY.select(cluster([]), BUNDLES[0], (), RULES).broker_id is None
