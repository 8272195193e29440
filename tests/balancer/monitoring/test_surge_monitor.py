"""Surges of bundles and of tenants in the reports of several brokers."""

from collections.abc import Mapping

import pytest

from broker_ctl.balancer.monitoring.load_monitor import SurgeMonitor
from broker_ctl.core.machines.surge import SurgeState
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import NO_SURGES, SurgeRules
from tests.support.clusters.in_memory_broker import even_traffic

A, B = "a:8080", "b:8080"
SHOP = Ring.even(Namespace("shop", "orders"), 100).bundles
BANK = Ring.even(Namespace("bank", "orders"), 2).bundles


def report(
    monitor: SurgeMonitor, broker_id: str, lines: Mapping[Bundle, float], now_s: float
) -> None:
    reading = monitor.report(broker_id, now_s)
    for bundle, bytes_s in lines.items():
        reading.add(bundle, even_traffic(bytes_s))
    reading.close()


@pytest.fixture
def monitor() -> SurgeMonitor:
    return SurgeMonitor(SurgeRules)


def subjects(monitor: SurgeMonitor) -> list[str]:
    return sorted(map(str, monitor.current))


def small(bytes_s: float) -> dict[Bundle, float]:
    """The shop's hundred bundles, half of them on each broker in the tests."""
    return dict.fromkeys(SHOP, bytes_s)


def test_a_tenant_of_many_small_bundles_surges_as_a_whole(monitor: SurgeMonitor) -> None:
    """No bundle has a twentieth of a mean broker, all together have much more."""
    woken: list[float] = []
    monitor.listen(lambda: woken.append(1.0))
    report(monitor, A, small(1e4) | {BANK[0]: 1e8}, 0.0)
    report(monitor, B, {BANK[1]: 1e8}, 0.0)
    assert (subjects(monitor), woken) == ([], [])
    report(monitor, A, small(1e6) | {BANK[0]: 1e8}, 5.0)
    assert subjects(monitor) == ["shop"]
    assert woken == [1.0]


def test_a_tenant_whose_bundles_move_has_not_surged(monitor: SurgeMonitor) -> None:
    half = dict(list(small(1e6).items())[:50])
    rest = dict(list(small(1e6).items())[50:])
    report(monitor, A, half | rest, 0.0)
    report(monitor, B, {BANK[1]: 1e7}, 0.0)
    report(monitor, B, rest | {BANK[1]: 1e7}, 5.0)
    report(monitor, A, half, 5.0)
    assert subjects(monitor) == []


def test_a_surge_is_followed_from_its_first_plan_until_it_lapses(monitor: SurgeMonitor) -> None:
    report(monitor, A, {BANK[0]: 1e6}, 0.0)
    report(monitor, A, {BANK[0]: 1e8}, 5.0)
    assert monitor.has_risen
    monitor.record_plan(monitor.current)
    assert not monitor.has_risen
    assert {surge.state for surge in monitor.current.values()} == {SurgeState.FOLLOWED}
    monitor.advance(64.9)
    assert monitor.current
    monitor.advance(65.0)
    assert not monitor.current


def test_a_surge_that_grows_again_is_planned_again(monitor: SurgeMonitor) -> None:
    report(monitor, A, {BANK[0]: 1e6}, 0.0)
    report(monitor, A, {BANK[0]: 1e7}, 5.0)
    planned = monitor.current
    report(monitor, A, {BANK[0]: 1e8}, 10.0)
    monitor.record_plan(planned)
    # The plan was made on a view with the first one.
    assert monitor.has_risen


def test_a_surge_ends_where_the_traffic_falls_or_the_bundle_goes(monitor: SurgeMonitor) -> None:
    lines = {BANK[0]: 1e6, SHOP[0]: 1e6}
    report(monitor, A, lines, 0.0)
    report(monitor, A, dict.fromkeys(lines, 1e8), 5.0)
    assert subjects(monitor) == ["bank", str(BANK[0]), "shop", str(SHOP[0])]
    report(monitor, A, {BANK[0]: 1e8, SHOP[0]: 4e7}, 10.0)
    assert subjects(monitor) == ["bank", str(BANK[0])]
    monitor.forget(BANK[0])
    monitor.forget_broker(A)
    assert subjects(monitor) == []


def test_nothing_surges_without_rules() -> None:
    monitor = SurgeMonitor(lambda: NO_SURGES)
    report(monitor, A, {BANK[0]: 1e6}, 0.0)
    report(monitor, A, {BANK[0]: 1e9}, 5.0)
    assert subjects(monitor) == []
