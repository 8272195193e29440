"""Usage of brokers by the demands of their bundles, and which brokers are too full."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import BrokerLoad, ResourceUsage, SystemUsage, UsageWeights
from broker_ctl.core.strategies.balance.demands import Demands, Known, Resources
from broker_ctl.core.strategies.balance.levels import Levels, levels_of
from tests.core.strategies.balance.fleets import ALERT, CALM
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

A, B, C, D = BUNDLES[:4]


def machine(broker_id: str, cpu: float, network: float) -> BrokerView:
    """Resources with limits of 800 and 1000, of which the given parts are used."""
    usage = SystemUsage(cpu=ResourceUsage(cpu, 800), bandwidth_in=ResourceUsage(network, 1000))
    seen = broker(broker_id, 0.5)
    return replace(seen, load=replace(seen.load, usage=usage))


def known(cpu: float, network: float, recent: float = 1.0) -> Known:
    return Known((cpu, network), (cpu * recent, network * recent), 600.0)


DEMANDS = Demands(
    active=(0, 3),
    known={A: known(400, 100), B: known(80, 300), C: known(80, 500, recent=1.5), D: known(80, 10)},
)
HOMES = {A: "b1", B: "b1", C: "b2", D: "gone"}


def test_a_broker_is_as_full_as_its_fullest_resource() -> None:
    view = cluster([machine("b1", 1, 1), machine("b2", 1, 1), machine("b3", 1, 1)])
    resources = Resources.of(view, UsageWeights())
    levels = levels_of(view, resources, DEMANDS, HOMES)
    assert levels.usage == pytest.approx({"b1": 0.6, "b2": 0.5, "b3": 0.0})
    assert levels.recent == pytest.approx({"b1": 0.6, "b2": 0.75, "b3": 0.0})
    assert levels.load == {"b1": (480, 400), "b2": (80, 500), "b3": (0, 0)}
    assert levels.capacity == dict.fromkeys(("b1", "b2", "b3"), (800, 1000))
    assert levels.mean == pytest.approx(1.1 / 3)
    assert levels.ratio("b1") == pytest.approx(0.6 / (1.1 / 3))
    assert levels.ratio("unheard of") == 0


def test_the_order_of_the_bundles_decides_nothing() -> None:
    """The float sum of 0.1, 0.2 and 0.3 depends on their order."""
    view = cluster([machine("b1", 1, 1), machine("b2", 1, 1)])
    resources = Resources.of(view, UsageWeights())
    tenths = {A: known(0.1, 0), B: known(0.2, 0), C: known(0.3, 0)}
    demands, homes = Demands((0, 3), tenths), dict.fromkeys((A, B, C), "b1")
    turned = dict(reversed(homes.items()))
    levels = levels_of(view, resources, demands, homes)
    assert levels == levels_of(view, resources, demands, turned)


def test_a_draining_broker_has_no_level() -> None:
    view = cluster([machine("b1", 1, 1), replace(machine("b2", 1, 1), is_draining=True)])
    levels = levels_of(view, Resources.of(view, UsageWeights()), DEMANDS, HOMES)
    assert set(levels.usage) == set(levels.recent) == {"b1"}


def test_unlisted_bundles_of_a_report_count() -> None:
    load = BrokerLoad("b1", bundles={str(A): stats(30)}, unlisted=stats(10), unlisted_bundles=4)
    view = cluster([BrokerView("b1", load, 0.0), broker("b2", 0.0, {B: stats(40)})])
    resources = Resources.of(view, UsageWeights())
    demands = Demands((), {A: Known((30.0,), (30.0,), 0), B: Known((40.0,), (40.0,), 0)})
    levels = levels_of(view, resources, demands, {A: "b1", B: "b2"})
    assert levels.load["b1"] == (30.0 + stats(10).throughput,)


def test_in_a_cluster_without_load_everybody_has_the_mean() -> None:
    assert Levels().mean == 0
    assert Levels({"b1": 0.0}).ratio("b1") == 1.0
    assert Levels().too_full(CALM) == Levels().in_trouble(ALERT) == []


def test_too_full_is_who_is_above_the_mark() -> None:
    """The mean is 50 %, and 60 % are the mark."""
    levels = Levels({"b1": 0.6, "b2": 0.61, "b3": 0.29})
    assert levels.too_full(CALM) == ["b2"]
    # 4 points above a mean of 1 are nothing, where 5 are the least that is worth a move.
    assert Levels({"b1": 0.05, "b2": 0.0, "b3": 0.0}).too_full(CALM) == ["b1"]
    wide = replace(CALM, band=replace(CALM.band, least=0.05))
    assert Levels({"b1": 0.05, "b2": 0.0, "b3": 0.0}).too_full(wide) == []


def test_in_trouble_is_who_has_far_too_much_at_this_moment() -> None:
    """By what is recent: 1.5 means, or 85 % of a broker that is too full anyway."""
    steady = {"b1": 0.9, "b2": 0.9, "b3": 0.9}
    assert Levels(steady, {"b1": 0.44, "b2": 0.2, "b3": 0.2}).in_trouble(ALERT) == ["b1"]
    assert Levels(steady, {"b1": 0.40, "b2": 0.2, "b3": 0.25}).in_trouble(ALERT) == []
    assert Levels(steady, {"b1": 0.9, "b2": 0.7, "b3": 0.6}).in_trouble(ALERT) == ["b1"]
    assert Levels(steady, {"b1": 0.84, "b2": 0.6, "b3": 0.6}).in_trouble(ALERT) == []
    # All of them are: moves do not help against that.
    assert Levels(steady, {"b1": 0.9, "b2": 0.88, "b3": 0.87}).in_trouble(ALERT) == []
