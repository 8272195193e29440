"""Files for the processes of a small Pulsar cluster: JVM options, configuration, logging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.lab.embedded.ports import LOOPBACK

CLUSTER: Final = "test"
LOG4J2: Final = "log4j2.xml"

LOGGING: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders>
    <Console name="out">
      <PatternLayout pattern="%d{ISO8601} [%t] %-5level %logger{1} - %msg%n"/>
    </Console>
  </Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""

_DRIVERS: Final = "org.apache.pulsar.metadata.bookkeeper"
# The collector and the compiler that start fastest: five of them share the cores of one machine.
STARTS_FAST: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# The opened packages are those that Pulsar's own start script opens.
_JAVA: Final = (
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djute.maxbuffer=10485760",
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}.PulsarMetadataBookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}.PulsarMetadataClientDriver",
    f"-Dlog4j.configurationFile={LOG4J2}",
    "-Dlog4j.shutdownHookEnabled=false",
)
_OPENED: Final = (
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)

# Load reports every second, on fresh statistics: Pulsar's own minute is long for a test. What acts
# by itself is off, so that a test sees its own acts only.
_BROKER: Final = {
    "clusterName": CLUSTER,
    "bindAddress": LOOPBACK,
    "advertisedAddress": LOOPBACK,
    "metadataStoreSessionTimeoutMillis": "10000",
    "brokerShutdownTimeoutMs": "10000",
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerCacheSizeMB": "32",
    "numIOThreads": "2",
    "numOrderedExecutorThreads": "2",
    "numHttpServerThreads": "8",
    "numExecutorThreadPoolSize": "2",
    "numCacheExecutorThreadPoolSize": "2",
    "managedLedgerNumSchedulerThreads": "2",
    "bookkeeperClientNumWorkerThreads": "2",
    "bookkeeperClientNumIoThreads": "2",
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
    "functionsWorkerEnabled": "false",
    "transactionCoordinatorEnabled": "false",
    "webSocketServiceEnabled": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "allowAutoTopicCreationType": "non-partitioned",
    "statsUpdateFrequencyInSecs": "2",
    "statsUpdateInitialDelayInSecs": "2",
    "loadBalancerEnabled": "true",
    "loadBalancerReportUpdateMinIntervalMillis": "1000",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerAutoUnloadSplitBundlesEnabled": "false",
    # The loopback device has no speed to read; without one every usage would be 0 of 0.
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
}

_BOOKIE: Final = {
    "allowLoopback": "true",
    "advertisedAddress": LOOPBACK,
    "listeningInterface": "lo",
    "journalDirectory": "journal",
    "ledgerDirectories": "ledgers",
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
    # A crash of the machine loses what is tested here, and may.
    "journalSyncData": "false",
    "journalPreAllocSizeMB": "1",
    "journalMaxSizeMB": "64",
    "entryLogFilePreallocationEnabled": "false",
    "minUsableSizeForEntryLogCreation": "1",
    "minUsableSizeForIndexFileCreation": "1",
    "skipListSizeLimit": "16777216",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "autoRecoveryDaemonEnabled": "false",
    "httpServerEnabled": "false",
    "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
    "numJournalCallbackThreads": "1",
    "numReadWorkerThreads": "1",
    "numHighPriorityWorkerThreads": "1",
    "serverNumIOThreads": "1",
}


@dataclass(frozen=True, slots=True)
class Java:
    """How a JVM runs; heap and direct memory are as large as each other."""

    heap_mb: int = 320
    tuning: Sequence[str] = STARTS_FAST

    @property
    def options(self) -> tuple[str, ...]:
        """On its command line."""
        opened = (option for name in _OPENED for option in ("--add-opens", f"{name}=ALL-UNNAMED"))
        memory = (f"-Xmx{self.heap_mb}m", f"-XX:MaxDirectMemorySize={self.heap_mb}m")
        return (*memory, *self.tuning, *_JAVA, *opened)


SMALL: Final = Java()


def broker_conf(
    zookeeper: str, web_port: int, service_port: int, settings: Mapping[str, str]
) -> str:
    """A broker's whole configuration file; ``settings`` come last."""
    return _properties(
        {
            **_BROKER,
            "metadataStoreUrl": f"zk:{zookeeper}",
            "configurationMetadataStoreUrl": f"zk:{zookeeper}",
            "webServicePort": str(web_port),
            "brokerServicePort": str(service_port),
            **settings,
        }
    )


def bookie_conf(zookeeper: str, port: int) -> str:
    """The bookie's whole configuration file."""
    uri = f"metadata-store:zk:{zookeeper}"
    return _properties({**_BOOKIE, "bookiePort": str(port), "metadataServiceUri": uri})


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
