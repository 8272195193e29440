"""How many bundles a namespace has, when one is split, and when two are merged.

Docs: pulsar-split-task. Nothing of Pulsar merges: those keys are ours.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.strategies.splitting.catalog import SPLITTING
from broker_ctl.settings.conditions import (
    ENABLED,
    LIMITING,
    MERGING_ENABLED,
    NOT_SHED_BY_BALANCE,
    OWN_BROKER,
    RESHAPING_ENABLED,
    SIMPLE,
    SPLITTING_ENABLED,
    either,
    given,
)
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import one_of

_ALGORITHMS: Final = tuple(SPLITTING.entries)


@dataclass(frozen=True, slots=True)
class SplittingSettings:
    """Splitting: how many bundles a namespace has, when one is split, and when two are merged."""

    default_bundles: Annotated[
        int,
        Setting(
            "defaultNumberOfNamespaceBundles",
            "Bundles of a namespace that is created without a number.",
            at_least=1,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 4
    max_bundles: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceMaximumBundles",
            "Bundles of a namespace at which none is split by itself any more.",
            at_least=1,
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 128
    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoBundleSplitEnabled",
            "Split bundles that are over a limit.",
            is_dynamic=True,
            used_with=ENABLED,
        ),
    ] = True
    unload_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoUnloadSplitBundlesEnabled",
            "Let the parts of a bundle that was split go to other brokers at once; balance moves "
            "them where it pays, whatever stands here.",
            is_dynamic=True,
            used_with=(OWN_BROKER, *SPLITTING_ENABLED, either(SIMPLE, NOT_SHED_BY_BALANCE)),
        ),
    ] = True
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSplitIntervalMinutes",
            "How often bundles are compared with the limits.",
            at_least=0.001,
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1.0
    max_splits_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesToSplitPerCycle",
            "Bundles that are split in one cycle.",
            at_least=1,
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 10
    max_topics: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxTopics",
            "Topics above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1000
    max_sessions: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxSessions",
            "Producers and consumers above which a bundle is split; 0 or -1: no limit.",
            at_least=-1,
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1000
    max_rate_msg_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxMsgRate",
            "Messages in and out above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=LIMITING,
        ),
    ] = 30_000
    max_bandwidth_mib_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
            "Throughput in and out above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=LIMITING,
        ),
    ] = 100
    is_held_in_quiet_hours: Annotated[
        bool,
        Setting(
            "loadBalancerQuietHoursHoldSplits",
            "Split and merge nothing by itself in loadBalancerQuietHours either; what is due then "
            "is done after them.",
            is_dynamic=True,
            used_with=(*RESHAPING_ENABLED, given("loadBalancerQuietHours")),
        ),
    ] = False
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
            matches="|".join(_ALGORITHMS),
            allowed=one_of(_ALGORITHMS),
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = _ALGORITHMS
    hit_count: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleSplitConditionHitCountThreshold",
            "Rounds in a row above a limit that are let pass before a bundle is split.",
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 0
    flow_difference_percent: Annotated[
        int,
        Setting(
            "flowOrQpsDifferenceThresholdPercentage",
            "How far above a limit a bundle is that flow_or_qps_equally_divide cuts.",
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 10
    merge_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoBundleMergeEnabled",
            "Merge neighbours that have little to do.",
            is_dynamic=True,
            used_with=(OWN_BROKER, *ENABLED),
        ),
    ] = False
    merge_load_percent: Annotated[
        int,
        Setting(
            "loadBalancerBundleMergeLoadPercentage",
            "Share of each split limit below which a bundle has little to do.",
            at_least=1,
            at_most=50,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 10
    merge_hit_count: Annotated[
        int,
        Setting(
            "loadBalancerBundleMergeConditionHitCountThreshold",
            "Rounds in a row with little to do that are let pass before two bundles are merged.",
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 30
    merge_cool_down_minutes: Annotated[
        float,
        Setting(
            "loadBalancerBundleMergeCoolDownMinutes",
            "For so long what came of a split or of a merge is not merged.",
            at_least=0,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 60.0
    min_bundles: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceMinimumBundles",
            "Bundles of a namespace at which none are merged by themselves any more.",
            at_least=1,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 4
    max_merges_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesToMergePerCycle",
            "Merges in one cycle.",
            at_least=1,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 2

    @property
    def interval_s(self) -> float:
        """In seconds."""
        return self.interval_minutes * 60

    @property
    def max_bandwidth_bytes_per_s(self) -> int:
        """In bytes a second."""
        return self.max_bandwidth_mib_per_s * 1024 * 1024

    @property
    def merge_cool_down_s(self) -> float:
        """In seconds."""
        return self.merge_cool_down_minutes * 60
