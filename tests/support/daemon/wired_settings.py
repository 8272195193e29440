"""To what each setting is wired: what changes in a daemon that is built with another value.

A place is a class and its field, with how often it changes; see `tests.support.daemon.built`. Of a
setting that is handed on, the places where it arrives are named, and not each one on the way.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker_ctl.settings.conditions import OPENID_PROVIDER, TLS_PROVIDER
from tests.support.http.certificates import TLS


class Wired(NamedTuple):
    """One setting.

    Attributes:
        value: other than the one that it has in ``beside``.
        places: what differs, and how often at least.
        beside: the other settings of both builds.
    """

    key: str
    value: str
    places: Mapping[str, int]
    beside: tuple[str, ...] = ()


# Files that a test makes in its own directory, where it builds.
SECRET: Final = "secret"
OTHER_SECRET: Final = "other-secret"
CLUSTER_KEY: Final = "cluster-key"
JWKS: Final = "jwks"
SECRETS: Final[Mapping[str, str]] = {
    JWKS: json.dumps(
        {
            "keys": [
                {
                    "kty": "EC",
                    "crv": "P-256",
                    "kid": "k1",
                    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
                    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
                }
            ]
        }
    ),
    CLUSTER_KEY: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    SECRET: "user:0123456789abcdef0123",
    OTHER_SECRET: "user:fedcba9876543210fedc",
    "account/token": "pod",
    "account/namespace": "here",
}

PLAIN: Final = ()
TRACED: Final = ("openTelemetryTracesEndpoint=http://127.0.0.1:1",)
NUMBERED: Final = ("brokerId=1",)
LOOKED_UP: Final = ("lookupServicePort=6652",)
CALLED: Final = ("dataPlaneUrl=http://h", f"dataPlaneSecretFile={SECRET}")
WEBHOOK: Final = (*CALLED, "dataPlane=webhook")
ATTACHED: Final = ("dataPlane=pulsar", "pulsarAdminUrl=http://h")
BY_ADMIN: Final = (
    *ATTACHED,
    "pulsarStateUrl=kubernetes:a/b",
    "kubernetesApiUrl=http://127.0.0.1:1",
)
IN_KUBERNETES: Final = (*BY_ADMIN, "kubernetesServiceAccountDirectory=account")
SIMPLE: Final = ("loadManagerClassName=SimpleLoadManagerImpl",)
OTHER_SHEDDER: Final = ("loadBalancerLoadSheddingStrategy=ThresholdShedder",)
MERGING: Final = ("loadBalancerAutoBundleMergeEnabled=true",)
AUDITED: Final = ("auditFile=audit.log",)
HISTORY: Final = ("loadHistoryDirectory=history",)
SCENARIO: Final = ("simulatedWorkload=steady-skew",)
CERTIFICATE: Final = f"{TLS / 'certificate.pem'}"
CERTIFIED: Final = (f"tlsCertificateFilePath={CERTIFICATE}", f"tlsKeyFilePath={TLS / 'key.pem'}")
TLS_PORT: Final = (*CERTIFIED, "webServicePortTls=8443")
CERTIFYING: Final = (
    *TLS_PORT,
    f"tlsTrustCertsFilePath={CERTIFICATE}",
    f"clusterKeyFile={CLUSTER_KEY}",
)
ASKED: Final = (f"tokenSecretKeyFile={SECRET}", "authenticationEnabled=true")
SIGNED_IN: Final = (*ASKED, "superUserRoles=user")
JWT_SECRET: Final = SECRETS[CLUSTER_KEY]
JWT_PUBLIC: Final = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjlM7b6C/e0YluzBmfAH7YH75+L"
    "ioD+9bMAYocDGHsqNz6x294DMYNm0Gn4Om9ZAAU8c2M8sEGyHFXhqGwfQAtA=="
)
VERIFIED: Final = ("authenticationEnabled=true", f"tokenSecretKey={JWT_SECRET}")
BY_ISSUER: Final = (
    "authenticationEnabled=true",
    f"authenticationProviders={OPENID_PROVIDER}",
    f"clusterKeyFile={CLUSTER_KEY}",
    "openIDAllowedTokenIssuers=https://i",
    "openIDAllowedAudiences=a",
)
TOPIC_CAP: Final = {"PlacementRules.topic_cap": 2, "BalanceRules.topic_cap": 1}

WIRED: Final = (
    Wired(
        "clusterName",
        "c2",
        {
            "FailureDomains._cluster": 1,
            "FailureDomains._root": 1,
            "NodeCache._root": 2,
            "ClusterRouter._cluster": 1,
            "IsolationPolicies._path": 1,
            "Namespaces._cluster": 1,
            "ApiRules.cluster": 2,
            "ValueCache._roots": 2,
        },
    ),
    Wired(
        "openTelemetryTracesEndpoint",
        "http://127.0.0.1:1/v1/traces",
        {
            "BalancerDependencies.tracer": 1,
            "BinaryDependencies.tracer": 1,
            "Dispatcher._tracer": 1,
            "Foundation.tracer": 1,
        },
        LOOKED_UP,
    ),
    Wired(
        "openTelemetryTracesRequestRatio",
        "1",
        {"OpenTelemetryTracer._request_ratio": 1},
        TRACED,
    ),
    Wired("bindAddress", "127.0.0.2", {"ApiRules.address": 2}),
    Wired("adminServicePort", "7", {"BrokerUrls.admin_url": 4, "ApiRules.further_ports": 1}),
    Wired("adminBindAddress", "127.0.0.2", {"HttpPort.address": 1}, ("adminServicePort=8082",)),
    Wired("metricsServicePort", "7", {"ApiRules.further_ports": 1}),
    Wired("metricsBindAddress", "127.0.0.2", {"HttpPort.address": 1}, ("metricsServicePort=7",)),
    Wired("lookupServicePort", "7", {"LookupUrls.url": 1, "ApiRules.lookup_port": 2}),
    Wired("brokerServicePort", "6651", {"BrokerUrls.native_url": 4}),
    Wired("brokerServicePortTls", "7", {"BrokerUrls.native_url_tls": 4}),
    Wired("brokerRack", "r1", {"LiveBroker.rack": 1, "Registration.rack": 1}, NUMBERED),
    Wired("brokerId", "7", {"Assembly.partitions": 1, "Dependencies.partitions": 1}),
    Wired(
        "maxConcurrentLookupRequest",
        "50001",
        {"ConcurrencyLimit.limit": 1, "ApiRules.max_lookups": 2},
    ),
    Wired("maxNumPartitionsPerPartitionedTopic", "1", {"PartitionedTopics._most_partitions": 1}),
    Wired(
        "maxConcurrentHttpRequests",
        "1025",
        {"ConcurrencyLimit.limit": 2, "ApiRules.max_requests": 2},
    ),
    Wired("maxHttpServerConnections", "2049", {"ApiRules.max_connections": 2}),
    Wired("maxHttpServerConnectionsPerIp", "1025", {"ApiRules.max_connections_of_address": 2}),
    Wired("authenticationFailureMaxDelayMs", "0", {"ApiRules.max_failure_delay_s": 2}),
    Wired("httpRequestsLimitEnabled", "true", {"RateLimits.total_per_s": 2}),
    Wired(
        "httpRequestsMaxPerSecond",
        "50",
        {"RateLimits.total_per_s": 2},
        ("httpRequestsLimitEnabled=true",),
    ),
    Wired("httpRequestsMaxPerSecondPerIp", "5", {"RateLimits.address_per_s": 2}),
    Wired("httpRequestsMaxPerSecondPerRole", "5", {"RateLimits.role_per_s": 1}, SIGNED_IN),
    Wired("brokerMaxConnections", "7", {"BinaryLimits.max_clients": 2}, LOOKED_UP),
    Wired("brokerMaxConnectionsPerIp", "7", {"BinaryLimits.max_clients_of_address": 2}, LOOKED_UP),
    Wired("lookupRequestsMaxPerSecondPerIp", "5", {"RateLimits.address_per_s": 2}, LOOKED_UP),
    Wired(
        "lookupRequestsMaxPerSecondPerRole",
        "5",
        {"RateLimits.role_per_s": 1},
        (*SIGNED_IN, *LOOKED_UP),
    ),
    Wired("httpServerIdleTimeout", "30001", {"ApiRules.idle_timeout_s": 2}),
    Wired("httpMaxRequestBodyBytes", "1048577", {"ApiRules.max_body_bytes": 2}),
    Wired("consoleEnabled", "false", {"ApiRules.has_console": 2}),
    Wired("consoleReadOnly", "true", {"ApiRules.is_console_read_only": 2}),
    Wired("httpAllowedHosts", "lb.example", {"ApiRules.hosts": 2}),
    Wired("metadataStoreUrl", "other:2181", {"StoreOptions.hosts": 1}),
    Wired(
        "metadataStoreSessionTimeoutMillis",
        "30001",
        {
            "ApiRules.max_loop_lag_s": 2,
            "SessionOptions.timeout_s": 1,
            "StoreOptions.session_timeout_s": 1,
        },
    ),
    Wired(
        "metadataStoreOperationTimeoutSeconds",
        "31",
        {"BatchRules.operation_timeout_s": 3, "StoreOptions.operation_timeout_s": 1},
    ),
    Wired(
        "metadataStoreCacheExpirySeconds",
        "301",
        {"CacheRules.expiry_s": 6, "CacheRules.refresh_s": 6},
    ),
    Wired("metadataStoreBatchingEnabled", "false", {"Foundation.configuration": 1}),
    Wired("metadataStoreBatchingFlush", "fixedDelay", {"BatchRules.is_adaptive": 3}),
    Wired("metadataStoreBatchingMaxDelayMillis", "6", {"BatchRules.max_delay_s": 3}),
    Wired("metadataStoreBatchingMaxOperations", "1001", {"BatchRules.max_operations": 3}),
    Wired("metadataStoreBatchingMaxSizeKb", "129", {"BatchRules.max_bytes": 3}),
    Wired(
        "zookeeperMaxInFlightRequests",
        "1001",
        {"SessionOptions.max_in_flight": 1, "StoreOptions.max_in_flight": 1},
    ),
    Wired(
        "zookeeperJuteMaxBufferBytes",
        "1048576",
        {
            "BatchRules.max_frame_bytes": 3,
            "ReportRules.max_bytes": 1,
            "SessionOptions.max_frame_bytes": 1,
            "StoreOptions.max_frame_bytes": 1,
        },
    ),
    Wired("zookeeperTickTimeMillis", "2001", {"SessionWatcher.tick_s": 1, "TickCheck._tick_ms": 1}),
    Wired("zookeeperMinSessionTimeoutMillis", "6000", {"TickCheck._expected_ms": 1}),
    Wired("ownershipAuthority", "storage", {"SessionWatcher._mode": 1}),
    Wired(
        "zookeeperSessionReconnectMaxRetries",
        "0",
        {"SessionOptions.max_retries": 1, "StoreOptions.max_retries": 1},
    ),
    Wired("loopWatchdogSeconds", "7", {"LoopWatchdog.limit_s": 2}),
    Wired(
        "brokerReclaimGraceMillis", "9000", {"LeaderRules.reclaim_grace_s": 1, "Owners._grace_s": 1}
    ),
    Wired("brokerReclaimLoadImmediately", "false", {"OwnershipDependencies.is_preloading": 1}),
    Wired("namespaceBundleUnloadingTimeoutMs", "60001", {"LeaderRules.unload_s": 1}),
    Wired("dataPlaneUrl", "http://h:1", {"Link._url": 1}, WEBHOOK),
    Wired("dataPlaneRequestTimeoutMillis", "5001", {"HttpClient._timeout_s": 1}, WEBHOOK),
    Wired("dataPlaneFailureTimeoutMillis", "10001", {"DataPlaneWatch._timeout_s": 1}),
    Wired("simulatedActLog", "secret", {"SimulatedDataPlane._serve_log": 1}),
    Wired("simulatedStartSeconds", "7", {"SimulatedDataPlane._origin_s": 1}),
    Wired("simulatedMinuteSeconds", "61", {"SimulatedDataPlane._pace": 1}),
    Wired("simulatedMaxMsgRate", "7", {"Capacity.msg_rate": 1}),
    Wired("simulatedMaxBytesPerSecond", "7", {"Capacity.bytes_s": 1}),
    Wired("pulsarAdminUrl", "http://h:1", {"AdminLink._urls": 1}, ATTACHED),
    Wired("pulsarAdminAllowedHosts", "h2", {"AllowedHosts.entries": 1}, ATTACHED),
    Wired("pulsarAct", "true", {"LeaderRules.is_dry_run": 1, "ClusterBalancer.acts": 1}, ATTACHED),
    Wired(
        "pulsarActDespiteClusterBalancer",
        "true",
        {"ClusterBalancer._is_beside": 1},
        (*ATTACHED, "pulsarAct=true"),
    ),
    Wired(
        "pulsarRequestTimeoutMillis",
        "5001",
        {"HttpClient._timeout_s": 1, "PulsarAdmin._act_timeout_s": 1},
        ATTACHED,
    ),
    Wired("pulsarStateUrl", "memory:", {"Attached.source": 1}, ATTACHED),
    Wired("pulsarAdminPollMillis", "5001", {"ClusterProjection._period_s": 1}, IN_KUBERNETES),
    Wired("kubernetesApiUrl", "http://h:1", {"Place.api_url": 1}, IN_KUBERNETES),
    Wired("stateChangeTransport", "zkqueue", {"ControllerDependencies.has_queues": 1}, NUMBERED),
    Wired(
        "replicaLagTimeMaxMillis",
        "30001",
        {"ReplicaDependencies.lag_time_s": 1, "IsrChanges._lag_time_s": 1},
        NUMBERED,
    ),
    Wired("minInSyncReplicas", "2", {"ControllerRules.min_isr": 1}, NUMBERED),
    Wired(
        "uncleanLeaderElectionEnable", "true", {"ControllerRules.is_unclean_allowed": 1}, NUMBERED
    ),
    Wired("autoLeaderRebalanceEnabled", "false", {"ControllerRules.is_rebalancing": 1}, NUMBERED),
    Wired(
        "leaderImbalancePerBrokerPercentage",
        "11",
        {"ControllerRules.imbalance_percent": 1},
        NUMBERED,
    ),
    Wired(
        "leaderImbalanceCheckIntervalSeconds",
        "301",
        {"ControllerRules.imbalance_check_s": 1},
        NUMBERED,
    ),
    Wired(
        "replicaAcknowledgeTimeoutMillis", "10001", {"ControllerRules.acknowledge_s": 1}, NUMBERED
    ),
    Wired(
        "zkQueueMaxInstructions",
        "101",
        {"ControllerRules.max_queued": 1},
        (*NUMBERED, "stateChangeTransport=zkqueue"),
    ),
    Wired("replicaPollMillis", "501", {"ReplicaDependencies.poll_s": 1}, NUMBERED),
    Wired("controlledShutdownEnabled", "false", {"PartitionParts.shutdown": 1}, NUMBERED),
    Wired("controlledShutdownMaxRetries", "4", {"ShutdownRules.max_retries": 1}, NUMBERED),
    Wired("controlledShutdownRetryBackoffMs", "1001", {"ShutdownRules.backoff_s": 1}, NUMBERED),
    Wired(
        "loadBalancerReportUpdateThresholdPercentage", "11", {"ReportRules.threshold_percent": 1}
    ),
    Wired(
        "loadBalancerReportUpdateMinIntervalMillis",
        "5001",
        {"LeaderRules.settle_s": 1, "ReportRules.min_interval_s": 1, "TransferRules.sample_s": 1},
    ),
    Wired("loadBalancerReportUpdateMaxIntervalMinutes", "16", {"ReportRules.max_interval_s": 1}),
    Wired("loadBalancerAverageSampleSeconds", "1", {"LeaderRules.average_sample_s": 1}),
    Wired(
        "loadBalancerBrokerLoadDataTTLInSeconds",
        "1801",
        {
            "PlacementRules.report_ttl_s": 2,
            "SheddingRules.report_ttl_s": 1,
            "SlowRules.report_age_s": 1,
        },
    ),
    Wired("loadBalancerHostUsageCheckIntervalMinutes", "2", {"ReportRules.host_interval_s": 1}),
    Wired(
        "statsUpdateFrequencyInSecs",
        "61",
        {"ReportRules.stats_interval_s": 1, "SplitRules.cool_down_s": 3},
    ),
    Wired("hostUsageSource", "host", {"LoadReporter._usage": 1}),
    Wired("loadBalancerOverrideBrokerNicSpeedGbps", "7", {"HostSampler._nic_speed_gbps": 1}),
    Wired("loadBalancerOverrideBrokerNics", "7", {"HostSampler._nics": 1}),
    Wired("loadBalancerCPUResourceWeight", "2", {"UsageWeights.cpu": 4}),
    Wired("loadBalancerMemoryResourceWeight", "1", {"UsageWeights.memory": 4}),
    Wired("loadBalancerDirectMemoryResourceWeight", "1", {"UsageWeights.direct_memory": 4}),
    Wired("loadBalancerBandwidthInResourceWeight", "2", {"UsageWeights.bandwidth_in": 4}),
    Wired("loadBalancerBandwidthOutResourceWeight", "2", {"UsageWeights.bandwidth_out": 4}),
    Wired("loadBalancerEnabled", "false", {"LeaderRules.shedding": 1, "LeaderRules.splitting": 1}),
    Wired(
        "loadManagerClassName",
        "SimpleLoadManagerImpl",
        {
            "LeaderRules.placement": 1,
            "LeaderRules.shedding": 1,
            "ReportRules.is_by_resource": 1,
            "SplitRules.is_unloading": 3,
            "SplitRules.max_share_ratio": 3,
        },
    ),
    Wired(
        "loadBalancerPlacementStrategy", "leastMsgPerSecond", {"SimpleRules.strategy": 4}, SIMPLE
    ),
    Wired(
        "loadBalancerBrokerComfortLoadLevelPercentage",
        "66",
        {"SimpleRules.comfort_percent": 4},
        SIMPLE,
    ),
    Wired(
        "loadBalancerBrokerUnderloadedThresholdPercentage",
        "51",
        {"SimpleRules.underload_percent": 4},
        SIMPLE,
    ),
    Wired("dryRun", "true", {"LeaderRules.is_dry_run": 1}),
    Wired("loadBalancerMaxMovesInFlightPerBroker", "3", {"Budgets.max_moves_per_broker": 1}),
    Wired("loadBalancerMaxMovesInFlight", "9", {"Budgets.max_moves": 1}),
    Wired("loadBalancerMaxLoadMovedPerHourPercentage", "101", {"Budgets.hourly_load_ratio": 1}),
    Wired(
        "loadBalancerResourceQuotaUpdateIntervalMinutes", "16", {"LeaderRules.quota_interval_s": 1}
    ),
    Wired("loadBalancerSheddingEnabled", "false", {"LeaderRules.shedding": 1}),
    Wired(
        "loadBalancerLoadSheddingStrategy",
        "OverloadShedder",
        {"LeaderRules.shedding": 1, "SplitRules.is_unloading": 3, "SplitRules.max_share_ratio": 3},
    ),
    Wired("loadBalancerSheddingIntervalMinutes", "2", {"LeaderRules.shedding_interval_s": 1}),
    Wired(
        "loadBalancerSheddingGracePeriodMinutes",
        "31",
        {"BalanceRules.rest_s": 1, "Budgets.cool_down_s": 1, "SheddingRules.grace_s": 1},
    ),
    Wired(
        "loadBalancerBrokerThresholdShedderPercentage", "11", {"SheddingRules.threshold_points": 1}
    ),
    Wired("loadBalancerHistoryResourcePercentage", "0.45", {"SheddingRules.history_ratio": 1}),
    Wired(
        "loadBalancerBundleUnloadMinThroughputThreshold",
        "11",
        {"SheddingRules.min_throughput_bytes": 1},
    ),
    Wired("lowerBoundarySheddingEnabled", "true", {"SheddingRules.is_lower_boundary_enabled": 1}),
    Wired(
        "loadBalancerSheddingExcludedNamespaces",
        "tenant/ns",
        {"PlacementRules.excluded_namespaces": 2, "SheddingRules.excluded_namespaces": 1},
    ),
    Wired("loadBalancerAvgShedderLowThreshold", "16", {"AvgRules.low_points": 1}),
    Wired("loadBalancerAvgShedderHighThreshold", "41", {"AvgRules.high_points": 1}),
    Wired("loadBalancerAvgShedderHitCountLowThreshold", "9", {"AvgRules.low_hits": 1}),
    Wired("loadBalancerAvgShedderHitCountHighThreshold", "3", {"AvgRules.high_hits": 1}),
    Wired("minUnloadMessage", "1001", {"DifferenceRules.min_msg_rate": 1}),
    Wired("minUnloadMessageThroughput", "1048577", {"DifferenceRules.min_throughput_bytes": 1}),
    Wired("maxUnloadPercentage", "0.1", {"DifferenceRules.max_ratio": 1}),
    Wired("maxUnloadBundleNumPerShedding", "0", {"UniformRules.max_bundles": 1}),
    Wired(
        "loadBalancerMsgRateDifferenceShedderThreshold", "51", {"UniformRules.msg_rate_percent": 1}
    ),
    Wired(
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
        "5",
        {"UniformRules.throughput_multiple": 1},
    ),
    Wired("loadBalancerBrokerLoadTargetStd", "0.125", {"TransferRules.target_std": 1}),
    Wired("loadBalancerSheddingConditionHitCountThreshold", "4", {"TransferRules.hits": 1}),
    Wired("loadBalancerTransferEnabled", "false", {"TransferRules.is_transfer_enabled": 1}),
    Wired("loadBalancerMaxNumberOfBrokerSheddingPerCycle", "4", {"TransferRules.max_brokers": 1}),
    Wired("loadBalanceSheddingDelayInSeconds", "181", {"TransferRules.delay_s": 1}),
    Wired(
        "loadBalancerMaxNumberOfBundlesInBundleLoadReport", "11", {"TransferRules.top_bundles": 1}
    ),
    Wired(
        "loadBalancerSheddingBundlesWithPoliciesEnabled",
        "true",
        {"TransferRules.is_constrained_moved": 1},
    ),
    Wired(
        "loadBalancerLoadPlacementStrategy",
        "LeastLongTermMessageRate",
        {"LeaderRules.placement": 1},
    ),
    Wired(
        "loadBalancerBrokerOverloadedThresholdPercentage",
        "86",
        {
            "BalanceRules.overloaded_ratio": 1,
            "OverloadRules.overloaded_ratio": 1,
            "PlacementRules.overloaded_ratio": 2,
        },
    ),
    Wired("loadBalancerBrokerMaxTopics", "50001", {"PlacementRules.max_topics": 2}),
    # Of placement, of lookups without a leader, and of the planner.
    Wired("loadBalancerBrokerLimits", ".* topics=5000", {"BrokerLimits.rows": 3}),
    Wired("loadBalancerTopicPartitionsPerBroker", "3", TOPIC_CAP),
    Wired(
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage",
        "11",
        {"PlacementRules.usage_difference_ratio": 2},
    ),
    Wired(
        "loadBalancerDistributeBundlesEvenlyEnabled",
        "true",
        {"PlacementRules.is_spread_evenly": 2},
        SIMPLE,
    ),
    Wired("failureDomainsEnabled", "true", {"PlacementRules.has_failure_domains": 2}),
    Wired("preferLaterVersions", "true", {"PlacementRules.prefers_later_versions": 2}),
    Wired("loadBalancerPlannerHighPercentage", "109", {"Band.high": 1}),
    Wired("loadBalancerPlannerLowPercentage", "105", {"Band.low": 1}),
    Wired("loadBalancerPlannerSeverePercentage", "115", {"BalanceRules.severe_ratio": 1}),
    Wired("loadBalancerPlannerChurnPercentagePerHour", "26", {"BalanceRules.churn_ratio": 1}),
    Wired("loadBalancerPlannerSteadySeconds", "1201", {"Smoothing.steady_s": 1}),
    Wired("loadBalancerPlannerRecentSeconds", "61", {"Smoothing.recent_s": 1}),
    Wired("loadBalancerPlannerReturnMinutes", "66", {"BalanceRules.return_s": 1}),
    Wired("loadBalancerSurgeMultiple", "11", {"SurgeRules.times": 1}),
    Wired(
        "loadBalancerNamespaceBundleMaxBrokerPercentage", "11", {"SplitRules.max_share_ratio": 3}
    ),
    Wired("loadBalancerMaxLostBrokersPercentage", "50", {"MassLossRules.limit_ratio": 1}),
    Wired("loadBalancerLostBrokersWindowSeconds", "60", {"MassLossRules.window_s": 1}),
    Wired(
        "loadBalancerMaxPlacementsPerSecondOfLostBrokers",
        "50",
        {"MassLossRules.placements_per_s": 1},
    ),
    Wired("loadBalancerHeadroomLimitPercentage", "86", {"BalanceRules.headroom_ratio": 1}),
    Wired("loadBalancerSlowBrokerDetectionEnabled", "false", {"SlowRules.is_enabled": 1}),
    Wired("loadBalancerSlowBrokerRemovalEnabled", "true", {"SlowRules.is_removing": 1}),
    Wired("loadBalancerSlowBrokerPeersMultiple", "4", {"SlowRules.peers_times": 1}),
    Wired("loadBalancerSlowBrokerHistoryMultiple", "4", {"SlowRules.own_times": 1}),
    Wired(
        "loadBalancerSlowBrokerMinThroughputKbytes", "1025", {"SlowRules.min_throughput_bytes": 1}
    ),
    Wired("loadBalancerSlowBrokerMinUsagePercentage", "21", {"SlowRules.min_usage_ratio": 1}),
    Wired("loadBalancerSlowBrokerDemotionScore", "6", {"SlowRules.demoted_score": 1}),
    Wired("loadBalancerSlowBrokerRemovalScore", "51", {"SlowRules.removed_score": 1}),
    Wired("loadBalancerSlowBrokerMaxPercentage", "11", {"SlowRules.max_ratio": 1}),
    Wired("defaultNumberOfNamespaceBundles", "5", {"Namespaces._default_bundles": 1}),
    Wired(
        "loadBalancerNamespaceMaximumBundles", "129", {"SplitRules.max_bundles_per_namespace": 3}
    ),
    Wired("loadBalancerAutoBundleSplitEnabled", "false", {"LeaderRules.splitting": 1}),
    Wired(
        "loadBalancerAutoUnloadSplitBundlesEnabled", "false", {"SplitRules.is_unloading": 3}, SIMPLE
    ),
    Wired("loadBalancerSplitIntervalMinutes", "2", {"LeaderRules.splitting_interval_s": 1}),
    Wired("loadBalancerMaxNumberOfBundlesToSplitPerCycle", "11", {"SplitRules.max_per_cycle": 3}),
    Wired("loadBalancerNamespaceBundleMaxTopics", "1001", {"SplitRules.max_topics": 3}),
    Wired("loadBalancerNamespaceBundleMaxSessions", "1001", {"SplitRules.max_sessions": 3}),
    Wired("loadBalancerNamespaceBundleMaxMsgRate", "30001", {"SplitRules.max_msg_rate": 3}),
    Wired(
        "loadBalancerNamespaceBundleMaxBandwidthMbytes",
        "101",
        {"SplitRules.max_bandwidth_bytes": 3},
    ),
    Wired(
        "defaultNamespaceBundleSplitAlgorithm",
        "topic_count_equally_divide",
        {
            "BundleRoutes.split_algorithm": 1,
            "SplitRules.algorithm": 3,
            "ApiRules.split_algorithm": 2,
        },
    ),
    Wired(
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold",
        "1",
        {"SplitRules.hit_count": 3},
    ),
    Wired("flowOrQpsDifferenceThresholdPercentage", "11", {"SplitRules.flow_difference_ratio": 3}),
    Wired("loadBalancerAutoBundleMergeEnabled", "true", {"LeaderRules.merging": 1}),
    Wired("loadBalancerBundleMergeLoadPercentage", "11", {"MergeRules.cold_ratio": 1}, MERGING),
    Wired(
        "loadBalancerBundleMergeConditionHitCountThreshold",
        "31",
        {"MergeRules.hit_count": 1},
        MERGING,
    ),
    Wired("loadBalancerBundleMergeCoolDownMinutes", "61", {"MergeRules.cool_down_s": 1}, MERGING),
    Wired("loadBalancerNamespaceMinimumBundles", "5", {"MergeRules.min_bundles": 1}, MERGING),
    Wired(
        "loadBalancerMaxNumberOfBundlesToMergePerCycle",
        "3",
        {"MergeRules.max_per_cycle": 1},
        MERGING,
    ),
    Wired("auditFile", "audit.log", {"AuditRules.file": 1}),
    Wired("auditFileMaxBytes", "65537", {"AuditRules.max_bytes": 1}, AUDITED),
    Wired("auditFilesKept", "11", {"AuditRules.kept": 1}, AUDITED),
    Wired("auditSyslogAddress", "/dev/log", {"AuditRules.syslog": 1}),
    Wired("auditRequired", "true", {"AuditRules.is_required": 1}, AUDITED),
    Wired("loadHistorySegmentMaxBytes", "16777217", {"SegmentRules.max_bytes": 2}, HISTORY),
    Wired("loadHistorySegmentMaxSeconds", "301", {"SegmentRules.max_s": 2}, HISTORY),
    Wired("loadHistoryMaxMebibytes", "1025", {"SegmentRules.keep_bytes": 2}, HISTORY),
    Wired("loadHistoryMaxSegments", "10001", {"SegmentRules.keep_segments": 2}, HISTORY),
    Wired(
        "advertisedAddress",
        "b9",
        {"BrokerUrls.broker_id": 4, "BrokerUrls.native_url": 4, "BrokerUrls.web_url": 4},
    ),
    Wired(
        "webServicePort",
        "8081",
        {"BrokerUrls.broker_id": 4, "BrokerUrls.web_url": 4, "ApiRules.port": 2},
    ),
    Wired(
        "webServicePortTls",
        "8443",
        {"BrokerUrls.web_url_tls": 4, "ApiRules.port_tls": 1},
        CERTIFIED,
    ),
    Wired(
        "adminServicePortTls",
        "8443",
        {"BrokerUrls.admin_url_tls": 4, "ApiRules.further_ports": 1},
        CERTIFIED,
    ),
    Wired("metricsServicePortTls", "8443", {"ApiRules.further_ports": 1}, CERTIFIED),
    Wired(
        "lookupServicePortTls",
        "8443",
        {"LookupUrls.url_tls": 1, "ApiRules.lookup_port_tls": 1},
        CERTIFIED,
    ),
    Wired("advertisedListeners", "a:http://h:1", {"BrokerUrls.listeners": 4}),
    Wired("lookupAdvertisedListeners", "a:pulsar://h:1", {"LookupUrls.listeners": 1}),
    Wired(
        "internalListenerName",
        "b",
        {"BrokerUrls.native_url": 4},
        ("advertisedListeners=a:pulsar://h:1,b:pulsar://i:1",),
    ),
    Wired(
        "authenticationEnabled",
        "true",
        {"Foundation.authentication": 1},
        (ASKED[0], "superUserRoles=user"),
    ),
    Wired(
        "tokenSecretKeyFile",
        OTHER_SECRET,
        {"StaticTokens.digests": 1, "StaticTokens.secrets": 1},
        (*ASKED, "superUserRoles=user"),
    ),
    Wired(
        "superUserRoles", "user,b", {"ClusterRoles.super_users": 1}, (*ASKED, "superUserRoles=user")
    ),
    Wired(
        "tlsTrustCertsFilePath",
        CERTIFICATE,
        {"ApiRules.tls.authorities": 1, "ApiRules.tls.verify_mode": 1},
        TLS_PORT,
    ),
    Wired(
        "tlsRevocationListFile",
        f"{TLS / 'revoked.pem'}",
        {"ApiRules.tls.verify_flags": 1},
        (*TLS_PORT, f"tlsTrustCertsFilePath={CERTIFICATE}"),
    ),
    Wired(
        "tlsRequireTrustedClientCertOnConnect",
        "true",
        {"ApiRules.tls.verify_mode": 1},
        (*TLS_PORT, f"tlsTrustCertsFilePath={CERTIFICATE}"),
    ),
    Wired("tokenSecretKey", f"{JWT_SECRET[:-2]}A=", {"JwtKey.key": 1}, VERIFIED),
    Wired(
        "tokenPublicKey",
        JWT_PUBLIC,
        {"Authenticator._providers": 1},
        (*ASKED, "superUserRoles=user", "tokenPublicAlg=ES256"),
    ),
    Wired(
        "tokenPublicAlg",
        "ES384",
        {"JwtKey.algorithms": 1},
        (
            *ASKED,
            "superUserRoles=user",
            f"tokenPublicKey={JWT_PUBLIC}",
            "tokenPublicAlg=ES256",
        ),
    ),
    Wired(
        "loopbackTokenEnabled",
        "true",
        {"Authentication.local": 1, "ClusterRoles.super_users": 1},
        VERIFIED,
    ),
    Wired("authenticationRefreshCheckSeconds", "61", {"ApiRules.refresh_check_s": 1}, VERIFIED),
    Wired("tokenJwksFile", JWKS, {"Authenticator._providers": 1}, (*ASKED, "superUserRoles=user")),
    Wired("openIDAllowedTokenIssuers", "https://j", {"OpenIdRules.issuers": 1}, BY_ISSUER),
    Wired("openIDAllowedAudiences", "b", {"OpenIdRules.audiences": 1}, BY_ISSUER),
    Wired("openIDRoleClaim", "role", {"OpenIdRules.role_claim": 1}, BY_ISSUER),
    Wired("openIDAcceptedTimeLeewaySeconds", "5", {"OpenIdRules.leeway_s": 1}, BY_ISSUER),
    Wired("openIDTokenIssuerTrustCertsFilePath", CERTIFICATE, {"HttpClient._ssl": 1}, BY_ISSUER),
    Wired("openIDCacheRefreshAfterWriteSeconds", "9", {"OpenIdRules.refresh_s": 1}, BY_ISSUER),
    Wired("openIDCacheExpirationSeconds", "9", {"OpenIdRules.expiry_s": 1}, BY_ISSUER),
    Wired("openIDKeyIdCacheMissRefreshSeconds", "9", {"OpenIdRules.miss_refresh_s": 1}, BY_ISSUER),
    Wired("openIDHttpReadTimeoutMillis", "9", {"HttpClient._timeout_s": 1}, BY_ISSUER),
    Wired("tokenAuthClaim", "role", {"JwtRules.role_claim": 1}, VERIFIED),
    Wired(
        "tokenAudienceClaim", "for", {"JwtRules.audience_claim": 1}, (*VERIFIED, "tokenAudience=c")
    ),
    Wired("tokenAudience", "c", {"JwtRules.audience": 1}, VERIFIED),
    Wired("tokenAllowedClockSkewSeconds", "5", {"JwtRules.leeway_s": 1}, VERIFIED),
    Wired(
        "authenticationProviders",
        TLS_PROVIDER,
        {"Authenticator._providers": 1},
        (*CERTIFYING, *ASKED, "superUserRoles=user"),
    ),
    Wired(
        "tlsPrincipalMappingRules",
        "DEFAULT",
        {"CertificateRoles._rules": 1},
        (*CERTIFYING, "authenticationEnabled=true", f"authenticationProviders={TLS_PROVIDER}"),
    ),
    Wired("tlsCertRefreshCheckDurationSec", "7", {"Reloadable.period_s": 1}, TLS_PORT),
    Wired("tlsProtocols", "TLSv1.3", {"ApiRules.tls.minimum_version": 1}, TLS_PORT),
    Wired(
        "tlsCiphers",
        "ECDHE-RSA-AES128-GCM-SHA256",
        {"ApiRules.tls.maximum_version": 1},
        TLS_PORT,
    ),
    Wired(
        "brokerClientTrustCertsFilePath",
        CERTIFICATE,
        {"HttpClient._ssl": 1, "PeerHttp._requires_tls": 1},
    ),
    Wired("brokerClientTlsEnabled", "true", {"PeerHttp._requires_tls": 1}),
    Wired("clusterKeyFile", CLUSTER_KEY, {"Foundation.cluster_keys": 1}),
    Wired(
        "clusterKeyRequired",
        "true",
        {"PeerRequests.is_required": 1, "PlacementProofs.is_required": 1},
        (f"clusterKeyFile={CLUSTER_KEY}",),
    ),
    Wired("brokerClientRole", "peer", {"PeerRequests.role": 1}, (f"clusterKeyFile={CLUSTER_KEY}",)),
    Wired(
        "znodeSignatures",
        "require",
        {"ZnodeSignatures._is_required": 1},
        (f"clusterKeyFile={CLUSTER_KEY}",),
    ),
    Wired("peerAllowedHosts", "h2", {"AllowedHosts.entries": 1}),
    Wired(
        "configurationMetadataStoreUrl", "other", {"StoreOptions.hosts": 1, "StoreOptions.name": 1}
    ),
    Wired(
        "zookeeperAuthDigestFile",
        SECRET,
        {"StoreOptions.identity": 1, "NodeAccess.is_restricted": 1},
    ),
    Wired(
        "zookeeperSaslDigestFile",
        SECRET,
        {"StoreOptions.identity": 1, "NodeAccess.is_restricted": 1},
    ),
    Wired(
        "zookeeperSetAcl",
        "false",
        {"NodeAccess.is_restricted": 1},
        (f"zookeeperAuthDigestFile={SECRET}",),
    ),
    Wired(
        "zookeeperAclReaders",
        "sasl:monitor;x509:CN=m,O=x",
        {"NodeAccess.readers": 1},
        (f"zookeeperAuthDigestFile={SECRET}",),
    ),
    Wired("zookeeperTlsEnabled", "true", {"StoreOptions.tls": 1}),
    Wired(
        "zookeeperTlsCaFile",
        CERTIFICATE,
        {"StoreOptions.tls.authorities": 1},
        ("zookeeperTlsEnabled=true",),
    ),
    Wired("dataPlane", "webhook", {"BrokerServices.dataplane": 1}, CALLED),
    Wired(
        "dataPlaneSecretFile",
        OTHER_SECRET,
        {"ApiRules.dataplane_secret": 1, "HttpClient._token": 1},
        WEBHOOK,
    ),
    Wired("simulatedWorkload", "steady", {"Workload.name": 1}),
    Wired("simulatedSeed", "5", {"_Topic.share": 5780}, SCENARIO),
    Wired("simulatedBrokers", "5", {"_Topic.share": 3046}, SCENARIO),
    Wired(
        "simulatedReplicationTlsEnabled",
        "true",
        {"TcpNetwork._tls": 1},
        (*NUMBERED, *CERTIFIED, f"tlsTrustCertsFilePath={CERTIFICATE}"),
    ),
    Wired("simulatedLogDirectory", "logs", {"SimulatedReplicas._storage": 1}, NUMBERED),
    Wired("pulsarTokenFile", SECRET, {"HttpClient._token": 1}, ATTACHED),
    Wired("pulsarTlsTrustCertsFilePath", CERTIFICATE, {"HttpClient._ssl": 1}, ATTACHED),
    Wired("loadBalancerQuietHours", "22:00-06:00", {"QuietHours.ranges": 1}),
    Wired("viewerRoles", "reader", {"ClusterRoles.viewers": 1}, (*ASKED, "superUserRoles=user")),
    Wired(
        "dualAuthorizationEnabled",
        "true",
        {"BalancerDependencies.needs_dual_authorization": 1},
        (*ASKED, "superUserRoles=user"),
    ),
    Wired("operatorRoles", "op", {"ClusterRoles.operators": 1}, (*ASKED, "superUserRoles=user")),
    Wired("proxyRoles", "proxy", {"ClusterRoles.proxies": 1}, (*ASKED, "superUserRoles=user")),
    Wired(
        "authorizationEnabled",
        "true",
        {"AuthorizationPolicy.is_enabled": 1},
        (*ASKED, "superUserRoles=user"),
    ),
    Wired(
        "authenticateOriginalAuthData",
        "true",
        {"AuthorizationPolicy.authenticates_original": 1},
        (*ASKED, "superUserRoles=user"),
    ),
    Wired(
        "authorizationAllowWildcardsMatching",
        "true",
        {"AuthorizationPolicy.is_wildcard": 1},
        (*ASKED, "superUserRoles=user", "authorizationEnabled=true"),
    ),
    Wired(
        "authenticateMetricsEndpoint",
        "true",
        {"ApiRules.authenticates_metrics": 1},
        (*ASKED, "superUserRoles=user"),
    ),
    Wired("enablePersistentTopics", "false", {"LocalBrokerData.persistent_topics": 1}),
    Wired("enableNonPersistentTopics", "false", {"LocalBrokerData.non_persistent_topics": 1}),
    Wired("advertisedProtocols", "kafka=x:9092", {"LocalBrokerData.protocols": 1}),
    Wired("statusFilePath", "here", {"ApiRules.status_file": 2}),
    Wired(
        "loadBalancerQuietHoursHoldSplits",
        "true",
        {"QuietHours.ranges": 1},
        ("loadBalancerQuietHours=22:00-06:00",),
    ),
    Wired(
        "supportedNamespaceBundleSplitAlgorithms",
        "range_equally_divide",
        {"BundleRoutes.split_algorithms": 1, "ApiRules.split_algorithms": 2},
    ),
    Wired(
        "loadHistoryDirectory",
        "history",
        {"BalancerDependencies.history": 1, "BrokerServices.history": 1},
    ),
)
