"""The plan of a rollout: order, placement while a broker is away, and the number of moves."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rollout.forecast import RolloutForecast, RolloutScope, Seats, order_batches
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.errors import OrderConflict
from tests.support.clusters.views import NAMESPACE, broker, cluster, stats

EVERYBODY = RolloutScope()
NO_SEATS = Seats()
LIMIT = 0.85


def even(names: str, usage: float = 0.4, bundles_each: int = 8) -> ClusterView:
    """Brokers with as many equal bundles each, which take all that they use."""
    bundles = Ring.even(NAMESPACE, len(names) * bundles_each).bundles
    return cluster(
        (
            broker(name, usage, dict.fromkeys(_part(bundles, i, bundles_each), stats(usage * 10)))
            for i, name in enumerate(names)
        ),
        rings=(Ring.even(NAMESPACE, len(names) * bundles_each),),
    )


def _part(bundles: tuple[Bundle, ...], number: int, size: int) -> tuple[Bundle, ...]:
    return bundles[size * number : size * (number + 1)]


def domains(view: ClusterView, **domain_of: str) -> ClusterView:
    return replace(view, constraints=Constraints(domain_of=domain_of))


def forecast(view: ClusterView, scope: RolloutScope = EVERYBODY) -> RolloutForecast:
    return RolloutForecast.of(view, scope, NO_SEATS, PlacementRules(), Budgets())


def test_the_controller_and_the_leader_restart_last() -> None:
    batches = order_batches(even("abcd"), EVERYBODY, Seats(leader="a", controller="b"))
    assert batches == (("c",), ("d",), ("b",), ("a",))


def test_the_canary_restarts_first_though_it_leads() -> None:
    scope = RolloutScope(canary="a")
    assert order_batches(even("abc"), scope, Seats(leader="a"))[0] == ("a",)


def test_failure_domains_restart_one_after_the_other_and_that_of_the_leader_last() -> None:
    view = domains(even("abcd"), a="east", b="west", c="east", d="west")
    batches = order_batches(view, EVERYBODY, Seats(leader="c"))
    assert batches == (("b",), ("d",), ("a",), ("c",))


def test_a_whole_domain_restarts_at_once_and_the_canary_before_it() -> None:
    view = domains(even("abcd"), a="east", b="west", c="east", d="west")
    scope = RolloutScope(per_domain=True, canary="c")
    assert order_batches(view, scope, NO_SEATS) == (("c",), ("a",), ("b", "d"))


def test_without_failure_domains_no_zone_restarts_at_once() -> None:
    with pytest.raises(OrderConflict, match="no failure domains"):
        order_batches(even("ab"), RolloutScope(per_domain=True), NO_SEATS)


def test_a_rollout_that_leaves_nobody_is_refused() -> None:
    with pytest.raises(OrderConflict, match="no other broker"):
        order_batches(even("a"), EVERYBODY, NO_SEATS)
    with pytest.raises(OrderConflict, match="not live brokers with a load report: z"):
        order_batches(even("ab"), RolloutScope(("z",)), NO_SEATS)


def test_each_bundle_moves_about_once_and_those_of_the_first_broker_twice() -> None:
    found = forecast(even("abcde"))
    # 40 leave their broker, the first eight leave again, and the last broker gets its share.
    assert found.least_moves == 48 + found.given_back
    assert found.given_back in {7, 8}
    assert found.moves == found.least_moves
    second = found.batches[1]
    assert second.receivers == {"a": second.moves}


def test_nobody_carries_more_than_an_even_share_of_one_broker_less() -> None:
    found = forecast(even("abcde", usage=0.4))
    most = max(batch.highest_usage_ratio for batch in found.batches)
    assert 0.5 <= most <= 0.56
    assert found.refusal(LIMIT) == ""


def test_brokers_that_are_left_out_take_the_first_bundles_but_not_more_than_others() -> None:
    found = forecast(even("abcde"), RolloutScope(("a", "b")))
    assert set(found.batches[0].receivers) <= {"c", "d", "e"}
    assert found.batches[1].receivers["a"] == 8
    assert found.moves == found.least_moves == 16 + found.given_back


def test_one_broker_left_out_does_not_take_everything() -> None:
    found = forecast(even("abcde"), RolloutScope(tuple("abcd")))
    assert found.batches[0].receivers["e"] < 8
    assert found.batches[0].highest_usage_ratio < 0.56


def test_where_the_rest_cannot_carry_the_load_the_fullest_broker_is_named() -> None:
    why = forecast(even("abc", usage=0.6)).refusal(LIMIT)
    assert "while a restarts, " in why
    assert "loadBalancerHeadroomLimitPercentage" in why
    assert forecast(even("abc", usage=0.5)).refusal(LIMIT) == ""


def test_bundles_without_load_are_spread_by_their_number() -> None:
    found = forecast(even("abcde", usage=0.0))
    assert found.moves == found.least_moves
    assert sorted(found.batches[0].receivers.values()) == [2, 2, 2, 2]


def test_a_drain_takes_as_long_as_its_moves_in_flight_allow() -> None:
    view = even("abc")
    quick = RolloutForecast.of(
        view, EVERYBODY, NO_SEATS, PlacementRules(), Budgets(max_moves_per_broker=8)
    )
    assert quick.longest_drain_s < forecast(view).longest_drain_s
    assert quick.duration_s > quick.longest_drain_s
