"""Placement strategies by name: ours, and those that other packages bring."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.errors import SettingsError
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load, with_dynamic
from broker_ctl.settings.strategies import PLACEMENT_STRATEGIES

KEY = "loadBalancerLoadPlacementStrategy"
Install = Callable[[str, str, str], None]
PLACER = """
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.strategies.placement.strategies import Choice

class {name}:
    def select(self, view, bundle, candidates, rules):
        return Choice(max(candidates), Reason.LEAST_USAGE, "the last by name")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with one entry point where an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(module: str, name: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source, encoding="ascii")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="ascii"
        )
        points = f"[broker_ctl.placement]\n{name} = {module}:{name}\n"
        (info / "entry_points.txt").write_text(points, encoding="ascii")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return put


def settings_of(text: str) -> Settings:
    return load(None, {}, [f"{KEY}={text}"])


@pytest.mark.parametrize("name", PLACEMENT.entries)
def test_a_leader_places_by_the_strategy_that_is_named(name: str) -> None:
    rules = leader_rules(settings_of(f"org.apache.pulsar.broker.loadbalance.impl.{name}"))
    assert rules.placement is PLACEMENT.entries[name]


def test_another_package_may_bring_one(install: Install) -> None:
    install("acme_last", "LastByName", PLACER.format(name="LastByName"))
    settings = settings_of("com.acme.LastByName")
    assert settings.placement.strategy == "LastByName"
    assert type(leader_rules(settings).placement).__module__ == "acme_last"
    dynamic, problems = with_dynamic(settings, {KEY: "LastByName"})
    assert problems == ()
    assert leader_rules(dynamic).placement is leader_rules(settings).placement


def test_one_of_another_package_may_read_every_setting_of_placement(install: Install) -> None:
    install("acme_all", "ReadsAll", PLACER.format(name="ReadsAll"))
    difference = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    assert is_used(settings_of("ReadsAll"), difference)
    assert is_used(settings_of("LeastResourceUsageWithWeight"), difference)
    assert not is_used(settings_of("balance"), difference)


def test_one_that_cannot_place_is_refused(install: Install) -> None:
    install("acme_none", "NoPlacer", "class NoPlacer: ...\n")
    with pytest.raises(SettingsError, match="is not a strategy: it has no select"):
        settings_of("NoPlacer")


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(SettingsError, match=r"or an entry point of broker_ctl\.placement"):
        settings_of("Fastest")
    with pytest.raises(SettingsError, match="unknown placement strategy 'Fastest'"):
        PLACEMENT_STRATEGIES.find("Fastest")
