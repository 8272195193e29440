"""Which settings are given in vain, and what is said of them."""

from pathlib import Path

import pytest

from broker_ctl.settings.effect import is_used, without_effect
from broker_ctl.settings.pulsar_keys import OLD_KEYS
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.sources import read
from tests.support.rules.families import for_each

# Every key of the broker.conf that Pulsar 4.0.8 ships, commented ones left out.
PULSAR_KEYS = Path(__file__).with_name("pulsar_4_0_keys.txt").read_text("ascii").split()
SHEDDER = "loadBalancerLoadSheddingStrategy"
THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


def of_a_file(tmp_path: Path, *lines: str) -> Settings:
    file = tmp_path / "broker.conf"
    file.write_text("\n".join(lines), encoding="ascii")
    reading = read(file, {}, [])
    assert reading.problems == ()
    return reading.settings


def vain(*overrides: str) -> dict[str, str]:
    reading = read(None, {}, list(overrides))
    assert reading.problems == ()
    return {one.key: one.why for one in without_effect(reading.settings)}


def test_a_key_of_another_shedder_names_the_keys_that_balance_uses_instead(tmp_path: Path) -> None:
    (one,) = without_effect(of_a_file(tmp_path, "", f"{THRESHOLD}=20"))
    assert (one.key, one.origin) == (THRESHOLD, f"{tmp_path}/broker.conf:2")
    assert one.why == f"needs {SHEDDER}=ThresholdShedder; {SHEDDER} is balance (default)"
    assert one.instead == ("loadBalancerPlannerHighPercentage", "loadBalancerPlannerLowPercentage")


@pytest.mark.parametrize(
    ("grace_ms", "timeout_ms", "is_vain"),
    [(2999, 30_000, True), (3000, 30_000, False), (750, 4000, False), (749, 4000, True)],
)
def test_a_grace_below_a_heartbeats_period_is_named(
    grace_ms: int, timeout_ms: int, *, is_vain: bool
) -> None:
    key, timeout_key = "brokerReclaimGraceMillis", "metadataStoreSessionTimeoutMillis"
    settings = (f"{key}={grace_ms}", f"{timeout_key}={timeout_ms}", "zookeeperTickTimeMillis=500")
    found = vain(*settings)
    assert (key in found) is is_vain
    if is_vain:
        assert "a heartbeat's period or more" in found[key]
        assert f"{timeout_key} is {timeout_ms} (--set)" in found[key]


def test_under_another_shedder_of_pulsar_no_keys_of_balance_are_named() -> None:
    settings = read(None, {}, [f"{THRESHOLD}=20", f"{SHEDDER}=UniformLoadShedder"]).settings
    (one,) = without_effect(settings)
    assert one.instead == ()
    assert vain(f"{THRESHOLD}=20", f"{SHEDDER}=org.acme.ThresholdShedder") == {}


def test_one_of_several_strategies_is_enough() -> None:
    both = f"{SHEDDER}=UniformLoadShedder,ThresholdShedder"
    assert vain(both, f"{THRESHOLD}=20", "maxUnloadPercentage=0.4") == {}


@pytest.mark.parametrize(
    ("overrides", "key", "needs"),
    [
        (["metadataStoreSerDesThreads=4"], "metadataStoreSerDesThreads", "nothing reads it"),
        (
            ["loadBalancerAutoUnloadSplitBundlesEnabled=false"],
            "loadBalancerAutoUnloadSplitBundlesEnabled",
            f"{SHEDDER} other than balance",
        ),
        (
            ["loadBalancerDistributeBundlesEvenlyEnabled=true"],
            "loadBalancerDistributeBundlesEvenlyEnabled",
            "loadBalancerLoadPlacementStrategy other than balance",
        ),
        (
            ["loadManagerClassName=SimpleLoadManagerImpl", f"{SHEDDER}=balance"],
            SHEDDER,
            "loadManagerClassName is SimpleLoadManagerImpl (--set)",
        ),
        (
            [
                "dataPlane=webhook",
                "dataPlaneUrl=http://h",
                "dataPlaneSecretFile=s",
                "simulatedWorkload=steady",
            ],
            "simulatedWorkload",
            "needs dataPlane=simulated; dataPlane is webhook (--set)",
        ),
        (
            ["metadataStoreBatchingEnabled=false", "metadataStoreBatchingFlush=fixedDelay"],
            "metadataStoreBatchingFlush",
            "needs metadataStoreBatchingEnabled=true",
        ),
        (["superUserRoles=a"], "superUserRoles", "needs authenticationEnabled=true"),
        (["allowInsecureListener=true"], "allowInsecureListener", "off loopback"),
        (
            ["allowCleartextCredentials=true"],
            "allowCleartextCredentials",
            "and webServicePort and a bindAddress off loopback or ",
        ),
        (["minInSyncReplicas=2"], "minInSyncReplicas", "needs brokerId; brokerId is unset"),
    ],
)
def test_a_setting_in_vain_says_what_it_needs(overrides: list[str], key: str, needs: str) -> None:
    assert needs in vain(*overrides).get(key, "")


def test_a_default_is_never_reported_as_without_effect() -> None:
    assert not is_used(Settings(), THRESHOLD)
    assert list(without_effect(Settings())) == []


@for_each("key", DECLARATIONS)
def test_conditions_name_settings_that_there_are(key: str) -> None:
    setting = DECLARATIONS[key].setting
    for condition in setting.used_with:
        assert set(condition.keys) <= DECLARATIONS.keys() - {key}
    for other in setting.instead:
        assert is_used(Settings(), other)
        assert not is_used(Settings(), key)


def test_every_key_of_a_broker_conf_of_pulsar_4_0_is_accounted_for(tmp_path: Path) -> None:
    assert len(PULSAR_KEYS) == 491
    file = tmp_path / "broker.conf"
    file.write_text("".join(f"{key}=\n" for key in PULSAR_KEYS), encoding="ascii")
    reading = read(file, {}, [])
    assert [entry.key for entry in reading.unknown] == []
    # These name nothing if they are empty, and one of each kind must be there.
    assert [problem.key for problem in reading.problems] == [
        "webServicePort",
        "brokerServicePort",
        "defaultNamespaceBundleSplitAlgorithm",
    ]
    unused = {entry.key for entry in reading.unused}
    ours = {key for key in PULSAR_KEYS if key in DECLARATIONS or key in OLD_KEYS}
    assert unused | ours == set(PULSAR_KEYS)
    assert not unused & ours
    assert len(ours) > 80


def test_a_key_of_pulsar_4_0_says_of_itself_what_it_needs() -> None:
    """With that file's shedder and placement strategy, and all keys of the other ones given."""
    shipped = [f"{SHEDDER}=ThresholdShedder", "loadBalancerLoadPlacementStrategy=AvgShedder"]
    given = [
        f"{key}={text}"
        for key in PULSAR_KEYS
        if key in DECLARATIONS and key.startswith(("loadBalancer", "minUnload", "maxUnload"))
        if key not in {SHEDDER, "loadBalancerLoadPlacementStrategy"}
        if (text := Settings().text(key))
    ]
    found = vain(*shipped, *given)
    assert {key for key in found if "AvgShedder" in key} == {
        "loadBalancerAvgShedderLowThreshold",
        "loadBalancerAvgShedderHighThreshold",
        "loadBalancerAvgShedderHitCountLowThreshold",
        "loadBalancerAvgShedderHitCountHighThreshold",
    }
    assert THRESHOLD not in found
    assert "loadBalancerBrokerLoadTargetStd" in found
