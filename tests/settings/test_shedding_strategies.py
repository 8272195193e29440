"""Shedding strategies by name: ours, several in order, and those that other packages bring."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.core.planning.decide import CycleMemory, decide
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.avg import AvgShedder
from broker_ctl.core.strategies.shedding.policy import SheddingSequence
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder, ThresholdShedder
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.daemon.wiring.part_rules import leader_rules, shedding_rules
from broker_ctl.errors import SettingsError
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load, with_dynamic
from broker_ctl.settings.strategies import SHEDDING_STRATEGIES, shedding_policy
from tests.support.clusters.views import cluster

KEY = "loadBalancerLoadSheddingStrategy"
IMPL = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDER = """
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder

class {name}(OverloadShedder):
    pass
"""
YIELDING = """
class YieldingShedder:
    def recall(self, row): ...
    def observe(self, memory, view, rules): yield
    def shed(self, view, memory, rules): return ()
"""
PLAIN = """
from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.strategies.shedding.policy import Memoryless

class PlainShedder(Memoryless):
    def shed(self, view, memory, rules):
        return [Skip("cluster", Reason.BELOW_THRESHOLD, "night")]
"""
Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with one entry point where an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(module: str, name: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        line = f"{name} = {module}:{name}\n"
        (info / "entry_points.txt").write_text(f"[broker_ctl.shedding]\n{line}")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return put


def settings_of(text: str) -> Settings:
    return load(None, {}, [f"{KEY}={text}"])


@pytest.mark.parametrize("package", ["", IMPL])
@pytest.mark.parametrize("name", SHEDDING.entries)
def test_every_strategy_is_found_by_short_name_and_by_pulsars_class_name(
    name: str, package: str
) -> None:
    settings = settings_of(package + name)
    assert settings.shedding.strategies == (name,)
    assert shedding_policy(settings.shedding.strategies) is SHEDDING.entries[name]


def test_the_default_is_our_own_and_a_strategy_of_the_file_wins_over_it() -> None:
    assert Settings().shedding.strategies == ("balance",)
    rules = leader_rules(Settings())
    assert rules.shedding is SHEDDING.entries["balance"]
    assert rules.splitting is not None
    assert rules.splitting.max_share_ratio == 0.1
    pulsars = leader_rules(settings_of("ThresholdShedder"))
    assert pulsars.shedding is SHEDDING.entries["ThresholdShedder"]
    assert pulsars.splitting is not None
    assert pulsars.splitting.max_share_ratio == 0.0, "Pulsar knows no such limit"


def test_several_are_asked_in_their_order() -> None:
    settings = settings_of(f"{IMPL}OverloadShedder, AvgShedder")
    policy = leader_rules(settings).shedding
    assert isinstance(policy, SheddingSequence)
    assert list(policy.policies) == ["OverloadShedder", "AvgShedder"]
    first, second = policy.policies.values()
    assert isinstance(first, OverloadShedder)
    assert isinstance(second, AvgShedder)
    assert settings.text(KEY) == "OverloadShedder,AvgShedder"


def test_the_same_names_give_the_same_object_so_that_nothing_is_forgotten() -> None:
    settings = settings_of("ThresholdShedder,AvgShedder")
    assert leader_rules(settings).shedding is leader_rules(settings).shedding


def test_a_name_that_is_said_twice_counts_once() -> None:
    policy = shedding_policy(("ThresholdShedder", "ThresholdShedder"))
    assert isinstance(policy, ThresholdShedder)


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of("ThresholdShedder,Fastest")
    assert str(refused.value) == (
        f"--set: {KEY}=ThresholdShedder,Fastest: allowed: a comma-separated list; each "
        "balance, OverloadShedder, ThresholdShedder, UniformLoadShedder, AvgShedder, "
        "TransferShedder or an entry point of broker_ctl.shedding"
    )
    with pytest.raises(SettingsError, match=r"unknown shedding strategy 'Fastest'.*AvgShedder"):
        SHEDDING_STRATEGIES.find("Fastest")


def test_a_list_that_names_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="names nothing; allowed: a comma-separated list"):
        settings_of(",")


def test_the_strategy_may_change_at_run_time() -> None:
    settings, problems = with_dynamic(Settings(), {KEY: "AvgShedder,UniformLoadShedder"})
    assert problems == ()
    assert settings.shedding.strategies == ("AvgShedder", "UniformLoadShedder")


def test_another_package_may_bring_one(install: Install) -> None:
    install("acme_night", "NightShedder", SHEDDER.format(name="NightShedder"))
    settings = settings_of("com.acme.NightShedder,ThresholdShedder")
    assert settings.shedding.strategies == ("NightShedder", "ThresholdShedder")
    policy = shedding_policy(("NightShedder",))
    assert type(policy).__module__ == "acme_night"
    assert shedding_policy(["NightShedder"]) is policy
    assert SHEDDING_STRATEGIES.find("NightShedder") is policy


def test_a_strategy_of_another_package_may_return_a_list(install: Install) -> None:
    install("acme_plain", "PlainShedder", PLAIN)
    rules = leader_rules(settings_of("PlainShedder"))
    _, plan = decide(CycleMemory(), cluster([]), rules)
    assert [skip.detail for skip in plan.skipped] == ["night"]


def test_a_strategy_is_imported_only_when_it_is_configured(install: Install) -> None:
    install("acme_lazy", "LazyShedder", SHEDDER.format(name="LazyShedder"))
    settings_of("ThresholdShedder")
    assert SHEDDING_STRATEGIES.knows("LazyShedder")
    assert "acme_lazy" not in sys.modules
    settings_of("LazyShedder")
    assert "acme_lazy" in sys.modules


@pytest.mark.parametrize(
    ("module", "name", "source", "complaint"),
    [
        ("acme_a", "RaisingShedder", "raise OSError('no disk')", "does not load: OSError: no disk"),
        ("acme_b", "MissingShedder", "", "does not load: AttributeError"),
        (
            "acme_c",
            "GreedyShedder",
            "class GreedyShedder:\n    def __init__(self, size): ...\n",
            "does not load: TypeError",
        ),
        (
            "acme_d",
            "HalfShedder",
            "class HalfShedder:\n    def shed(self): ...\n",
            "is not a strategy: it has no recall, observe",
        ),
        (
            "acme_e",
            "YieldingShedder",
            YIELDING,
            "is not a strategy: observe must not yield",
        ),
    ],
)
def test_one_that_cannot_be_used_is_a_clear_error(
    install: Install, module: str, name: str, source: str, complaint: str
) -> None:
    install(module, name, source)
    where = f"entry point '{name}' of broker_ctl.shedding ({module}:{name})"
    with pytest.raises(SettingsError) as broken:
        SHEDDING_STRATEGIES.find(name)
    assert str(broken.value).startswith(f"{where} {complaint}")
    with pytest.raises(SettingsError) as refused:
        settings_of(name)
    assert f"--set: {KEY}={name}: {where} {complaint}" in str(refused.value)


def test_one_that_two_packages_bring_is_refused(install: Install) -> None:
    for module in ("acme_one", "acme_two"):
        install(module, "TwinShedder", SHEDDER.format(name="TwinShedder"))
    with pytest.raises(SettingsError) as refused:
        SHEDDING_STRATEGIES.find("TwinShedder")
    assert str(refused.value) == (
        "entry point 'TwinShedder' of broker_ctl.shedding is ambiguous: acme_one:TwinShedder and "
        "acme_two:TwinShedder"
    )


def test_our_own_names_cannot_be_taken_over(install: Install) -> None:
    install("acme_thief", "ThresholdShedder", SHEDDER.format(name="ThresholdShedder"))
    assert SHEDDING_STRATEGIES.find("ThresholdShedder") is SHEDDING.entries["ThresholdShedder"]
    assert "acme_thief" not in sys.modules


def test_the_defaults_of_settings_and_of_rules_are_the_same() -> None:
    assert shedding_rules(Settings()) == SheddingRules()


def test_every_threshold_reaches_its_rule() -> None:
    settings = load(
        None,
        {},
        [
            "loadBalancerBrokerOverloadedThresholdPercentage=70",
            "maxUnloadPercentage=0.5",
            "minUnloadMessage=10000",
            "minUnloadMessageThroughput=10485760",
            "loadBalancerMsgRateDifferenceShedderThreshold=30",
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=2.5",
            "maxUnloadBundleNumPerShedding=7",
            "loadBalancerAvgShedderLowThreshold=11",
            "loadBalancerAvgShedderHighThreshold=33",
            "loadBalancerAvgShedderHitCountLowThreshold=5",
            "loadBalancerAvgShedderHitCountHighThreshold=3",
            "loadBalancerBrokerLoadTargetStd=0.1",
            "loadBalancerSheddingConditionHitCountThreshold=1",
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle=4",
            "loadBalanceSheddingDelayInSeconds=90",
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport=-1",
            "loadBalancerTransferEnabled=false",
            "loadBalancerSheddingBundlesWithPoliciesEnabled=true",
            "loadBalancerReportUpdateMinIntervalMillis=2000",
        ],
    )
    rules = shedding_rules(settings)
    assert rules.overload.overloaded_ratio == pytest.approx(0.7)
    assert (rules.difference.max_ratio, rules.difference.min_msg_rate) == (0.5, 10_000)
    assert rules.difference.min_throughput_bytes == 10 * 2**20
    uniform, avg, transfer = rules.uniform, rules.avg, rules.transfer
    assert (uniform.msg_rate_percent, uniform.throughput_multiple) == (30, 2.5)
    assert uniform.max_bundles == 7
    assert (avg.low_points, avg.high_points, avg.low_hits, avg.high_hits) == (11, 33, 5, 3)
    assert (transfer.target_std, transfer.hits, transfer.max_brokers) == (0.1, 1, 4)
    assert (transfer.delay_s, transfer.top_bundles, transfer.sample_s) == (90, 0, 2)
    assert (transfer.is_transfer_enabled, transfer.is_constrained_moved) == (False, True)
