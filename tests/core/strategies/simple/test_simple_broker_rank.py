"""Numbers by hand: 2 cores, 1000 MiB, 10 Mbit/s each way."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.rules.leader_rules import SimpleRules, SimpleStrategy
from broker_ctl.core.strategies.simple import Factors, QuotaBook, SimplePlacement, broker_rank
from tests.support.clusters.views import BUNDLES

USAGE = SystemUsage(
    cpu=ResourceUsage(150.0, 200.0),
    memory=ResourceUsage(300.0, 1000.0),
    direct_memory=ResourceUsage(60.0, 100.0),
    bandwidth_in=ResourceUsage(0.0, 10_000.0),
    bandwidth_out=ResourceUsage(0.0, 10_000.0),
)
ALLOCATED = ResourceQuota(400.0, 600.0, 125_000.0, 250_000.0, 100.0)
DEFAULT = ResourceQuota(100.0, 100.0, 0.0, 0.0, 5.0)
LOAD = BrokerLoad("a", USAGE, {str(BUNDLES[0]): BundleStats()})
BROKER = BrokerView("a", LOAD, 0.75, owned=frozenset(BUNDLES[:1]))
BOOK = QuotaBook({"a": ALLOCATED}, DEFAULT, Factors(0.05, 25.0))


@pytest.mark.parametrize(
    ("strategy", "load_rank"),
    [
        # The CPU: 150 of 200.
        (SimpleStrategy.LEAST_LOADED, 75.0),
        (SimpleStrategy.LEAST_MSG_RATE, 1000.0),
        # A bundle of 200 msg/s takes 10 of 200: room for 20, times the square of a free quarter.
        (SimpleStrategy.WEIGHTED_RANDOM, 1.25),
    ],
)
def test_the_rank_is_what_the_strategy_compares(strategy: SimpleStrategy, load_rank: float) -> None:
    placement = SimplePlacement(SimpleRules(strategy=strategy), BOOK)
    assert broker_rank(BROKER, placement).load_rank == pytest.approx(load_rank)


def test_the_quotas_are_what_the_bundles_need_whatever_is_used() -> None:
    needed = broker_rank(BROKER, SimplePlacement(book=BOOK)).needed
    assert needed.cpu_percent == pytest.approx(25.0)
    assert needed.memory_percent == pytest.approx(10.0)
    assert needed.bandwidth_in_percent == pytest.approx(10.0)
    assert needed.bandwidth_out_percent == pytest.approx(20.0)


def test_reserved_bundles_are_part_of_the_need() -> None:
    promised = replace(BROKER, owned=frozenset(BUNDLES[:2]))
    needed = broker_rank(promised, SimplePlacement(book=BOOK)).needed
    assert needed.cpu_percent == pytest.approx(30.0)
    assert needed.memory_percent == pytest.approx(10.5)
