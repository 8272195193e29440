"""Rules for every declaration, and the settings for keys of Pulsar."""

from dataclasses import FrozenInstanceError

import pytest

from broker_ctl.settings.declarations import declared
from broker_ctl.settings.pulsar_keys import OLD_KEYS, PULSAR_KEYS, SPELLINGS, is_pulsar_key
from broker_ctl.settings.root import DECLARATIONS, SUBJECTS, Settings
from broker_ctl.settings.schema import unit_of
from tests.support.rules.families import for_each

# The load balancer's and the metadata store's keys (docs: pulsar-configuration).
PULSAR_BALANCING_KEYS = """
zookeeperServers metadataStoreUrl globalZookeeperServers configurationStoreServers
configurationMetadataStoreUrl failureDomainsEnabled metadataStoreSessionTimeoutMillis
metadataStoreOperationTimeoutSeconds metadataStoreCacheExpirySeconds
metadataStoreAllowReadOnlyOperations metadataStoreSerDesThreads zooKeeperSessionTimeoutMillis
zooKeeperOperationTimeoutSeconds zooKeeperCacheExpirySeconds zooKeeperAllowReadOnlyOperations
brokerShutdownTimeoutMs skipBrokerShutdownOnOOM topicLoadTimeoutSeconds
metadataStoreBatchingEnabled metadataStoreBatchingMaxDelayMillis
metadataStoreBatchingMaxOperations metadataStoreBatchingMaxSizeKb metadataStoreConfigPath
configurationStoreConfigPath configurationMetadataSyncEventTopic defaultNumberOfNamespaceBundles
defaultNumberOfSystemNamespaceBundles maxConcurrentLookupRequest zookeeperSessionExpiredPolicy
enableNamespaceIsolationUpdateOnTime loadBalancerEnabled loadBalancerPlacementStrategy
loadBalancerLoadSheddingStrategy lowerBoundarySheddingEnabled loadBalancerLoadPlacementStrategy
loadBalancerReportUpdateThresholdPercentage loadBalancerReportUpdateMinIntervalMillis
loadBalancerReportUpdateMaxIntervalMinutes loadBalancerHostUsageCheckIntervalMinutes
loadBalancerSheddingEnabled loadBalancerSheddingIntervalMinutes
loadBalancerDistributeBundlesEvenlyEnabled loadBalancerSheddingGracePeriodMinutes
loadBalancerBrokerUnderloadedThresholdPercentage loadBalancerBrokerMaxTopics
loadBalancerBrokerOverloadedThresholdPercentage loadBalancerBrokerThresholdShedderPercentage
loadBalancerAverageResourceUsageDifferenceThresholdPercentage
flowOrQpsDifferenceThresholdPercentage loadBalancerAvgShedderLowThreshold
loadBalancerAvgShedderHighThreshold loadBalancerAvgShedderHitCountLowThreshold
loadBalancerAvgShedderHitCountHighThreshold minUnloadMessage minUnloadMessageThroughput
maxUnloadPercentage loadBalancerMsgRateDifferenceShedderThreshold
loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold maxUnloadBundleNumPerShedding
loadBalancerHistoryResourcePercentage loadBalancerBandwidthInResourceWeight
loadBalancerBandwidthOutResourceWeight loadBalancerBandwithInResourceWeight
loadBalancerBandwithOutResourceWeight loadBalancerCPUResourceWeight
loadBalancerMemoryResourceWeight loadBalancerDirectMemoryResourceWeight
loadBalancerBundleUnloadMinThroughputThreshold loadBalancerResourceQuotaUpdateIntervalMinutes
loadBalancerBrokerComfortLoadLevelPercentage loadBalancerAutoBundleSplitEnabled
loadBalancerAutoUnloadSplitBundlesEnabled loadBalancerNamespaceBundleMaxTopics
loadBalancerNamespaceBundleMaxSessions loadBalancerNamespaceBundleMaxMsgRate
loadBalancerNamespaceBundleMaxBandwidthMbytes loadBalancerNamespaceMaximumBundles
loadManagerClassName loadManagerMigrationEnabled topicBundleAssignmentStrategy
supportedNamespaceBundleSplitAlgorithms defaultNamespaceBundleSplitAlgorithm
loadBalancerOverrideBrokerNicSpeedGbps loadBalancerOverrideBrokerNics
namespaceBundleUnloadingTimeoutMs loadBalancerDebugModeEnabled loadBalancerBrokerLoadTargetStd
loadBalancerSheddingConditionHitCountThreshold loadBalancerTransferEnabled
loadBalancerMaxNumberOfBrokerSheddingPerCycle loadBalanceSheddingDelayInSeconds
loadBalancerBrokerLoadDataTTLInSeconds loadBalancerMaxNumberOfBundlesInBundleLoadReport
loadBalancerSplitIntervalMinutes loadBalancerMaxNumberOfBundlesToSplitPerCycle
loadBalancerNamespaceBundleSplitConditionHitCountThreshold
loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds
loadBalancerSheddingBundlesWithPoliciesEnabled loadBalancerSheddingExcludedNamespaces
loadBalancerInFlightServiceUnitStateWaitingTimeInMillis
loadBalancerServiceUnitStateMonitorIntervalInSeconds loadBalancerMultiPhaseBundleUnload
loadManagerServiceUnitStateTableViewClassName loadBalancerServiceUnitTableViewSyncer
loadBalancerServiceUnitStateMaxConcurrentOverrides keepAliveIntervalSeconds preferLaterVersions
exposeBundlesMetricsInPrometheus statsUpdateFrequencyInSecs statsUpdateInitialDelayInSecs
advertisedAddress advertisedListeners internalListenerName webServicePort brokerServicePort
allowAutoTopicCreation maxConcurrentTopicLoadRequest
"""


def test_no_key_is_declared_twice() -> None:
    keys = [declaration.key for declaration in declared(SUBJECTS)]
    assert len(keys) == len(set(keys)) == len(DECLARATIONS)


def test_ours_pulsars_and_the_old_keys_do_not_overlap() -> None:
    assert not PULSAR_KEYS & DECLARATIONS.keys()
    assert not PULSAR_KEYS & OLD_KEYS
    assert not OLD_KEYS & DECLARATIONS.keys()


def test_an_old_key_sets_the_key_that_replaced_it() -> None:
    assert {spelling.new for spelling in SPELLINGS} <= DECLARATIONS.keys()


def test_every_key_of_pulsars_balancer_is_known() -> None:
    keys = PULSAR_BALANCING_KEYS.split()
    strange = [k for k in keys if not (k in DECLARATIONS or k in OLD_KEYS or is_pulsar_key(k))]
    assert strange == []
    assert len(PULSAR_KEYS) >= 250


@for_each("key", DECLARATIONS)
def test_a_setting_says_in_one_sentence_what_it_does(key: str) -> None:
    declaration = DECLARATIONS[key]
    assert declaration.setting.sentence.endswith(".")
    assert declaration.kind.allowed
    is_off = declaration.setting.is_off_when_empty
    assert declaration.parse("") == (declaration.off if is_off else declaration.default)


@for_each("key", DECLARATIONS)
def test_a_key_that_names_its_unit_has_a_field_of_that_unit(key: str) -> None:
    units = {
        "Millis": "ms", "Ms": "ms", "Seconds": "s", "Secs": "s", "Minutes": "minutes",
        "Bytes": "bytes", "Gbps": "Gbit/s", "Kb": "KiB", "Mbytes": "MiB/s",
    }  # fmt: skip
    ending = next((ending for ending in units if key.endswith(ending)), None)
    if ending:
        assert DECLARATIONS[key].unit == units[ending]


def test_the_end_of_a_name_is_its_unit() -> None:
    assert unit_of("session_timeout_ms") == "ms"
    assert unit_of("cache_expiry_s") == "s"
    assert unit_of("min_throughput_mib_per_s") == "MiB/s"
    assert unit_of("lost_bundles_per_s") == "bundles/s"
    assert unit_of("max_topics") == ""


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().metadata.session_timeout_ms = 1  # type: ignore[misc]  # the point of the test


def test_values_in_other_units_are_derived() -> None:
    settings = Settings()
    assert settings.metadata.session_timeout_s == 30
    assert settings.metadata.batching_max_delay_s == 0.005
    assert settings.metadata.batching_max_size_bytes == 131_072
    assert settings.zookeeper.tick_time_s == 2
    assert settings.session.reclaim_grace_s == 2
    assert settings.session.shutdown_timeout_s == settings.session.bundle_unloading_timeout_s == 60
    assert settings.dataplane.failure_timeout_s == 2 * settings.dataplane.request_timeout_s == 10
    assert settings.load_report.min_interval_s == 5
    assert settings.load_report.max_interval_s == settings.balancing.quota_interval_s == 900
    assert settings.load_report.host_usage_interval_s == settings.shedding.interval_s == 60
    assert settings.load_report.weights.bandwidth_out == 1
    assert settings.shedding.grace_period_s == 1800
    assert settings.shedding.threshold_ratio == 0.1
    assert settings.shedding.min_throughput_bytes_per_s == 10 * 2**20
    assert settings.placement.overloaded_threshold_ratio == 0.85
    assert settings.splitting.interval_s == 60
    assert settings.splitting.max_bandwidth_bytes_per_s == 100 * 2**20
