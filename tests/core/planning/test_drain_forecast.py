"""The forecast of a drain, from the plan that would empty the broker."""

import math

import pytest

from broker_ctl.core.cluster.directives import drain_proposals
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.planning.decide import CycleRules, plan_proposals
from broker_ctl.core.planning.drain_forecast import DrainForecast, drained_view
from broker_ctl.core.rules.leader_rules import Budgets
from broker_ctl.core.strategies.placement.strategies import LeastResourceUsageWithWeight
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

RULES = CycleRules(
    LeastResourceUsageWithWeight(), budgets=Budgets(max_moves=99, max_moves_per_broker=99)
)
LIMIT = 0.85


def forecast(view: ClusterView, broker_id: str, *also: str) -> DrainForecast:
    drained = {broker_id, *also}
    seen = drained_view(view, drained)
    plan = plan_proposals(seen, drain_proposals(seen, drained), RULES)
    return DrainForecast.of(seen, broker_id, plan, drained)


def loaded(*usages: float) -> ClusterView:
    """Brokers a, b, c ... with four bundles each, which take all that they use."""
    return cluster(
        broker(name, usage, {bundle: stats(usage * 10) for bundle in BUNDLES[4 * i : 4 * i + 4]})
        for i, (name, usage) in enumerate(zip("abcd", usages, strict=False))
    )


def test_a_forecast_has_the_bundles_and_their_receivers_with_usage_before_and_after() -> None:
    drain = forecast(loaded(0.4, 0.2, 0.2), "a")
    assert (drain.bundles, drain.staying) == (4, {})
    assert {each.broker_id: each.bundles for each in drain.receivers} == {"b": 2, "c": 2}
    assert drain.receivers[0].usage_before_ratio == pytest.approx(0.2)
    assert drain.receivers[0].usage_after_ratio == pytest.approx(0.4)
    assert drain.usage_at_best_ratio == pytest.approx(0.4)
    assert drain.refusal(LIMIT) == ""


def test_where_the_others_would_be_above_the_limit_it_says_so() -> None:
    drain = forecast(loaded(0.6, 0.6, 0.6), "a")
    assert drain.usage_at_best_ratio == pytest.approx(0.9)
    assert "without a the fullest of the others would have to carry 90.0%" in drain.refusal(LIMIT)
    assert drain.refusal(0.9001) == ""


def test_other_brokers_that_are_drained_have_no_room_and_their_load_has_to_go_too() -> None:
    view = loaded(0.3, 0.3, 0.3)
    assert forecast(view, "a").usage_at_best_ratio == pytest.approx(0.45)
    drain = forecast(view, "a", "b")
    assert drain.usage_at_best_ratio == pytest.approx(0.9)
    assert {each.broker_id for each in drain.receivers} == {"c"}
    assert drain.refusal(LIMIT)


def test_one_receiver_that_would_be_overfull_is_enough_though_another_has_room() -> None:
    # Each of the four is as large as a quarter of what a broker has.
    drain = DrainForecast("a", 1, 1.0, (), {}, 0.5)
    assert drain.refusal(LIMIT) == ""
    view = loaded(0.8, 0.7)
    (receiver,) = forecast(view, "a").receivers
    assert receiver.usage_after_ratio == pytest.approx(1.5)


def test_bundles_that_no_broker_can_take_stay_with_the_reason() -> None:
    drain = forecast(loaded(0.4), "a")
    assert (drain.bundles, drain.receivers) == (0, ())
    assert set(drain.staying) == set(map(str, BUNDLES[:4]))
    assert "nobody can receive it from a" in drain.staying[str(BUNDLES[0])]
    assert drain.to_row()["staying"][0]["bundle"] == str(BUNDLES[0])


def test_a_load_without_any_room_is_refused_and_is_null_in_json() -> None:
    drain = DrainForecast("a", 0, 0.0, (), {}, math.inf)
    assert drain.refusal(LIMIT)
    assert drain.to_row()["usage_at_best_ratio"] is None
