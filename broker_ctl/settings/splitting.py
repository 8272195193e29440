"""How many bundles a namespace has, and when one is split (reference: pulsar-load-management 7)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.splitting.catalog import SPLITTING
from broker_ctl.settings.model import Setting
from broker_ctl.settings.values import one_of

# Pulsar's own file allows its splits all of these. One that we have not may stand in the list, and
# is refused when a split asks for it.
_LISTED: Final = tuple(dict.fromkeys((*SPLITTING.entries, "flow_or_qps_equally_divide")))


@dataclass(frozen=True, slots=True)
class SplittingSettings:
    """Splitting: how many bundles a namespace has, and when one is split."""

    default_bundles: Annotated[
        int,
        Setting(
            "defaultNumberOfNamespaceBundles",
            "Bundles of a namespace that is created without a number.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 4
    max_bundles: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceMaximumBundles",
            "Bundles of a namespace at which none is split by itself any more.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 128
    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoBundleSplitEnabled",
            "Split bundles that are over a limit.",
            is_dynamic=True,
        ),
    ] = True
    unload_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoUnloadSplitBundlesEnabled",
            "Let the parts of a bundle that was split go to other brokers.",
            is_dynamic=True,
        ),
    ] = True
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSplitIntervalMinutes",
            "How often bundles are compared with the limits.",
            at_least=0.001,
        ),
    ] = 1.0
    max_splits_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesToSplitPerCycle",
            "Bundles that are split in one cycle.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 10
    max_topics: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxTopics",
            "Topics above which a bundle is split; 0: no limit.",
            is_dynamic=True,
        ),
    ] = 1000
    max_sessions: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxSessions",
            "Producers and consumers above which a bundle is split; 0 or -1: no limit.",
            at_least=-1,
            is_dynamic=True,
        ),
    ] = 1000
    max_rate_msg_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxMsgRate",
            "Messages in and out above which a bundle is split; 0: no limit.",
            is_dynamic=True,
        ),
    ] = 30_000
    max_bandwidth_mib_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
            "Throughput in and out above which a bundle is split; 0: no limit.",
            is_dynamic=True,
        ),
    ] = 100
    default_algorithm: Annotated[
        str,
        Setting(
            "defaultNamespaceBundleSplitAlgorithm",
            "Where a bundle is cut when nobody says so.",
            catalog=SPLITTING,
            is_dynamic=True,
        ),
    ] = "range_equally_divide"
    supported_algorithms: Annotated[
        tuple[str, ...],
        Setting(
            "supportedNamespaceBundleSplitAlgorithms",
            "Algorithms that a split may ask for.",
            matches="|".join(_LISTED),
            allowed=one_of(_LISTED),
            is_dynamic=True,
        ),
    ] = tuple(SPLITTING.entries)

    @property
    def interval_s(self) -> float:
        """In seconds."""
        return self.interval_minutes * 60

    @property
    def max_bandwidth_bytes_per_s(self) -> int:
        """In bytes a second."""
        return self.max_bandwidth_mib_per_s * 1024 * 1024
