"""Splits and merges of bundles.

Docs: pulsar-split-task. Pulsar does not merge, so the keys of merges are broker-ctl's own.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.strategies.splitting.algorithms import SPLITTING
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
from broker_ctl.settings.values import InSeconds, one_of

_ALGORITHMS: Final = tuple(SPLITTING.entries)


@dataclass(frozen=True, slots=True)
class SplittingSettings:
    """Splitting: number of bundles of a namespace, splits and merges."""

    default_bundles: Annotated[
        int,
        Setting(
            "defaultNumberOfNamespaceBundles",
            "Number of bundles of a namespace that is created without a number.",
            at_least=1,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 4
    max_bundles: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceMaximumBundles",
            "Number of bundles of a namespace at which automatic splits stop.",
            at_least=1,
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 128
    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoBundleSplitEnabled",
            "Whether bundles above a limit are split automatically.",
            is_dynamic=True,
            used_with=ENABLED,
        ),
    ] = True
    unload_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoUnloadSplitBundlesEnabled",
            "Whether the children of a split bundle are unloaded immediately, so that other "
            "brokers may own them; strategy balance ignores it and moves them only if that "
            "pays.",
            is_dynamic=True,
            used_with=(OWN_BROKER, *SPLITTING_ENABLED, either(SIMPLE, NOT_SHED_BY_BALANCE)),
        ),
    ] = True
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSplitIntervalMinutes",
            "Interval at which bundles are checked against the limits.",
            at_least=0.001,
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1.0
    max_splits_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesToSplitPerCycle",
            "Maximum number of splits in one cycle.",
            at_least=1,
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 10
    max_topics: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxTopics",
            "Number of topics above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1000
    max_sessions: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxSessions",
            "Number of producers and consumers above which a bundle is split; 0 or -1: no limit.",
            at_least=-1,
            is_dynamic=True,
            used_with=RESHAPING_ENABLED,
        ),
    ] = 1000
    max_rate_msg_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxMsgRate",
            "Message rate, in and out, above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=LIMITING,
        ),
    ] = 30_000
    max_bandwidth_mib_per_s: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
            "Throughput, in and out, above which a bundle is split; 0: no limit.",
            is_dynamic=True,
            used_with=LIMITING,
        ),
    ] = 100
    is_held_in_quiet_hours: Annotated[
        bool,
        Setting(
            "loadBalancerQuietHoursHoldSplits",
            "Whether automatic splits and merges wait until the end of loadBalancerQuietHours.",
            is_dynamic=True,
            used_with=(*RESHAPING_ENABLED, given("loadBalancerQuietHours")),
        ),
    ] = False
    default_algorithm: Annotated[
        str,
        Setting(
            "defaultNamespaceBundleSplitAlgorithm",
            "Split algorithm of splits that name none.",
            catalog=SPLITTING,
            is_dynamic=True,
        ),
    ] = "range_equally_divide"
    supported_algorithms: Annotated[
        tuple[str, ...],
        Setting(
            "supportedNamespaceBundleSplitAlgorithms",
            "Split algorithms that a request may name; defaultNamespaceBundleSplitAlgorithm has "
            "to be among them.",
            is_off_when_empty=True,
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
            "Number of consecutive checks above a limit tolerated before a bundle is split.",
            is_dynamic=True,
            used_with=SPLITTING_ENABLED,
        ),
    ] = 0
    flow_difference_percent: Annotated[
        int,
        Setting(
            "flowOrQpsDifferenceThresholdPercentage",
            "flow_or_qps_equally_divide: minimum excess over a limit for a bundle to be split.",
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 10
    merge_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerAutoBundleMergeEnabled",
            "Whether adjacent bundles with little load are merged automatically.",
            is_dynamic=True,
            used_with=(OWN_BROKER, *ENABLED),
        ),
    ] = False
    merge_load_percent: Annotated[
        int,
        Setting(
            "loadBalancerBundleMergeLoadPercentage",
            "Share of each split limit below which a bundle counts as having little load.",
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
            "Number of consecutive checks with little load tolerated before two bundles are "
            "merged.",
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 30
    merge_cool_down_minutes: Annotated[
        float,
        Setting(
            "loadBalancerBundleMergeCoolDownMinutes",
            "Time after a split or a merge for which the resulting bundles are not merged.",
            at_least=0,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 60.0
    min_bundles: Annotated[
        int,
        Setting(
            "loadBalancerNamespaceMinimumBundles",
            "Number of bundles of a namespace at which automatic merges stop.",
            at_least=1,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 4
    max_merges_per_cycle: Annotated[
        int,
        Setting(
            "loadBalancerMaxNumberOfBundlesToMergePerCycle",
            "Maximum number of merges in one cycle.",
            at_least=1,
            is_dynamic=True,
            used_with=MERGING_ENABLED,
        ),
    ] = 2

    interval_s = InSeconds("interval_minutes")

    @property
    def max_bandwidth_bytes_per_s(self) -> int:
        """In bytes per second."""
        return self.max_bandwidth_mib_per_s * 1024 * 1024

    merge_cool_down_s = InSeconds("merge_cool_down_minutes")
