"""The metadata store and its client."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.conditions import BATCHED, NEVER
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds

_URL_WORDS: Final = "zk:host:2181,host2:2181/chroot"


class BatchFlush(StrEnum):
    """When a batch that is not full is sent."""

    ADAPTIVE = "adaptive"
    FIXED_DELAY = "fixedDelay"


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Metadata store: servers, timeouts, caches and batches."""

    store_url: Annotated[
        StoreUrl | None,
        Setting(
            "metadataStoreUrl",
            "ZooKeeper servers of the cluster's metadata; the prefix zk: is optional.",
            allowed=_URL_WORDS,
        ),
    ] = None
    configuration_store_url: Annotated[
        StoreUrl | None,
        Setting(
            "configurationMetadataStoreUrl",
            "ZooKeeper servers of tenants and namespaces; empty: the servers of metadataStoreUrl.",
            allowed=_URL_WORDS,
        ),
    ] = None
    session_timeout_ms: Annotated[
        int,
        Setting(
            "metadataStoreSessionTimeoutMillis",
            "Session timeout requested from ZooKeeper; the servers may grant a different one.",
            at_least=1000,
        ),
    ] = 30_000
    operation_timeout_s: Annotated[
        int,
        Setting(
            "metadataStoreOperationTimeoutSeconds",
            "Timeout of every request to the metadata store.",
            at_least=1,
        ),
    ] = 30
    cache_expiry_s: Annotated[
        int,
        Setting(
            "metadataStoreCacheExpirySeconds",
            "Maximum age of a cached node. Use of a node older than half of this triggers a "
            "refresh in the background.",
            at_least=1,
        ),
    ] = 300
    batching_enabled: Annotated[
        bool,
        Setting(
            "metadataStoreBatchingEnabled",
            "Whether concurrent requests to the metadata store are sent together as one batch.",
        ),
    ] = True
    batching_flush: Annotated[
        BatchFlush,
        Setting(
            "metadataStoreBatchingFlush",
            "When a batch that is not full is sent. adaptive: immediately if little is in "
            "flight, otherwise with the next reply; fixedDelay: after "
            "metadataStoreBatchingMaxDelayMillis, as in Pulsar.",
            used_with=(BATCHED,),
        ),
    ] = BatchFlush.ADAPTIVE
    batching_max_delay_ms: Annotated[
        int,
        Setting(
            "metadataStoreBatchingMaxDelayMillis",
            "Maximum time that a request waits for its batch.",
            at_least=1,
            used_with=(BATCHED,),
        ),
    ] = 5
    batching_max_operations: Annotated[
        int,
        Setting(
            "metadataStoreBatchingMaxOperations",
            "Maximum number of requests in a batch. Eight times as many bulk requests may be in "
            "flight.",
            at_least=1,
            used_with=(BATCHED,),
        ),
    ] = 1000
    batching_max_size_kib: Annotated[
        int,
        Setting(
            "metadataStoreBatchingMaxSizeKb",
            "Maximum size of a batch.",
            at_least=1,
            used_with=(BATCHED,),
        ),
    ] = 128
    serdes_threads: Annotated[
        int,
        Setting(
            "metadataStoreSerDesThreads",
            "No effect: the JSON codec holds the interpreter lock, so that more threads "
            "neither decode faster nor relieve the event loop, from 1 KB to 10 MB.",
            at_least=1,
            used_with=(NEVER,),
        ),
    ] = 1

    @property
    def configuration_url(self) -> StoreUrl | None:
        """The store of tenants and namespaces."""
        return self.configuration_store_url or self.store_url

    session_timeout_s = InSeconds("session_timeout_ms")
    batching_max_delay_s = InSeconds("batching_max_delay_ms")

    @property
    def batching_max_size_bytes(self) -> int:
        """In bytes."""
        return self.batching_max_size_kib * 1024
