"""Reasons of Pulsar's strategies, of splits and of merges: what keeps it, and until when.

A judge lifts every subset of the settings that restrict a strategy: without those that a reason
names the broker gives something; without fewer of them, or where none is named, it does not.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import (
    MIB,
    DifferenceRules,
    MergeRules,
    SheddingRules,
    SplitRules,
    TransferRules,
    UniformRules,
)
from broker_ctl.core.strategies import merging as merges
from broker_ctl.core.strategies.shedding import lifting
from broker_ctl.core.strategies.shedding.avg import AvgMemory, AvgShedder
from broker_ctl.core.strategies.shedding.policy import NoMemory
from broker_ctl.core.strategies.shedding.threshold import (
    OverloadShedder,
    ThresholdMemory,
    ThresholdShedder,
    UniformLoadShedder,
)
from broker_ctl.core.strategies.shedding.transfer import TransferMemory, TransferShedder
from broker_ctl.core.strategies.simple import SimpleShedder
from broker_ctl.core.strategies.splitting import candidates as splits
from broker_ctl.settings.root import DECLARATIONS
from tests.support.clusters.views import NOW_S, broker, cluster, stats

CASES = 150
NAMESPACES = [Namespace("t", name) for name in ("free", "listed", "isolated")]
RINGS = [Ring.even(each, 16) for each in NAMESPACES]

REST = "loadBalancerSheddingGracePeriodMinutes"
LISTED = "loadBalancerSheddingExcludedNamespaces"
UNDER_POLICIES = "loadBalancerSheddingBundlesWithPoliciesEnabled"
TOP = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"
LEAST = "loadBalancerBundleUnloadMinThroughputThreshold"
SHARE = "maxUnloadPercentage"
COUNT = "maxUnloadBundleNumPerShedding"
SILENT = "loadBalancerBrokerLoadDataTTLInSeconds"
WITHOUT: Mapping[str, Callable[[SheddingRules], SheddingRules]] = {
    REST: lambda rules: replace(rules, grace_s=0.0),
    LISTED: lambda rules: replace(rules, excluded_namespaces=frozenset()),
    UNDER_POLICIES: lambda rules: replace(
        rules, transfer=replace(rules.transfer, is_constrained_moved=True)
    ),
    TOP: lambda rules: replace(rules, transfer=replace(rules.transfer, top_bundles=0)),
    LEAST: lambda rules: replace(
        rules,
        min_throughput_bytes=0.0,
        difference=replace(rules.difference, min_msg_rate=0.0, min_throughput_bytes=0.0),
    ),
    SHARE: lambda rules: replace(rules, difference=replace(rules.difference, max_ratio=0.5)),
    COUNT: lambda rules: replace(rules, uniform=replace(rules.uniform, max_bundles=None)),
    SILENT: lambda rules: replace(rules, report_ttl_s=1e12),
}
POLICIES: Mapping[str, tuple[Any, Any]] = {
    "threshold": (ThresholdShedder(), ThresholdMemory()),
    "overload": (OverloadShedder(), NoMemory()),
    "uniform": (UniformLoadShedder(), NoMemory()),
    "avg": (AvgShedder(), None),
    "transfer": (TransferShedder(), TransferMemory(hits=9, is_due=True)),
    "simple": (SimpleShedder(), NoMemory()),
}


@dataclass(frozen=True)
class Case:
    """A view, the rules, and what was decided on it."""

    policy: Any
    memory: Any
    view: ClusterView
    rules: SheddingRules
    decisions: tuple[Decision, ...]

    def gives(self, subject: str, lifted: tuple[str, ...], later_s: float = 0.0) -> bool:
        """Whether the broker gives something without some settings, by the strategy alone."""
        rules = self.rules
        for key in lifted:
            rules = WITHOUT[key](rules)
        view = replace(self.view, taken_at_s=self.view.taken_at_s + later_s)
        return any(
            isinstance(each, Unload | Transfer) and each.source == subject
            for each in self.policy.shed(view, self.memory, rules)
        )


def case_of(name: str, seed: int) -> Case:
    """A small cluster whose first broker has too much."""
    policy, memory = POLICIES[name]
    dice = random.Random(f"{name} {seed}")
    names = ("b1", "b2", "b3")[: dice.choice((2, 3))]
    supply = [list(ring.bundles) for ring in RINGS]
    lines: dict[str, dict[Bundle, Any]] = {}
    for number, broker_id in enumerate(names):
        count = dice.randint(1, 4) if number == 0 else dice.randint(0, 2)
        # Where the third has much too, the second is missed if it is silent.
        is_full = number == 0 or (number == 2 and dice.random() < 0.4)
        sizes = (100, 200, 300, 400) if is_full else (20, 60)
        lines[broker_id] = {
            supply[dice.choice((0, 0, 1, 2))].pop(): stats(
                dice.choice(sizes), topics=dice.choice((1, 10))
            )
            for _ in range(count)
        }
    bundles = [bundle for each in lines.values() for bundle in each]
    reports = [
        broker(
            broker_id,
            sum(line.throughput for line in each.values()) / MIB / 1000,
            each,
            age_s=1e6 if broker_id != "b1" and dice.random() < 0.4 else 0.0,
        )
        for broker_id, each in lines.items()
    ]
    isolation = (IsolationPolicy("dedicated", ("t/isolated",), names),)
    view = cluster(
        reports,
        rings=RINGS,
        unloaded_s={
            each: NOW_S - dice.choice((60, 600)) for each in bundles if dice.random() < 0.5
        },
        constraints=Constraints(isolation=isolation if dice.random() < 0.5 else ()),
    )
    rules = SheddingRules(
        report_ttl_s=1800.0,
        min_throughput_bytes=dice.choice((0.0, 10.0, 200.0)) * MIB,
        excluded_namespaces=frozenset(NAMESPACES[1:2] if dice.random() < 0.6 else ()),
        difference=DifferenceRules(
            max_ratio=dice.choice((0.05, 0.2, 0.5)),
            min_throughput_bytes=dice.choice((1.0, 300.0)) * MIB,
            min_msg_rate=dice.choice((1000.0, 1e6)),
        ),
        uniform=UniformRules(max_bundles=dice.choice((None, 0, 1))),
        transfer=TransferRules(
            delay_s=0.0, target_std=0.1, top_bundles=dice.choice((0, 1, 10)), hits=0
        ),
    )
    if name == "avg":
        memory = AvgMemory(firing=tuple((hot, cool) for hot in names for cool in names))
    if name == "simple":
        reports = [
            replace(
                each,
                load=replace(
                    each.load,
                    usage=replace(
                        each.load.usage,
                        cpu=replace(
                            each.load.usage.cpu, usage=100 * each.usage_ratio * 1.5, limit=100.0
                        ),
                    ),
                ),
            )
            for each in view.brokers.values()
        ]
        view = replace(view, brokers={each.broker_id: each for each in reports})
    decisions = policy.shed(view, memory, rules)
    reported = lifting.tried(policy, view, memory, rules, decisions)
    return Case(policy, memory, view, rules, tuple(reported))


@cache
def judged(name: str) -> tuple[Counter[str], list[str]]:
    return judge(name)


def judge(name: str) -> tuple[Counter[str], list[str]]:
    """Reasons by the settings that they name, and the false ones."""
    counts: Counter[str] = Counter()
    false: list[str] = []
    for seed in range(CASES):
        case = case_of(name, seed)
        givers = {each.source for each in case.decisions if isinstance(each, Unload | Transfer)}
        for skip in case.decisions:
            if (
                not isinstance(skip, Skip)
                or skip.subject not in case.view.brokers
                or skip.subject in givers
                or skip.reason in {Reason.STALE_REPORT, Reason.HIT_COUNT, Reason.NO_BUNDLES}
            ):
                if isinstance(skip, Skip) and not _has_end(skip):
                    false.append(f"{name} {seed}: without an end: {skip.sentence}")
                continue
            named = tuple(key for key in WITHOUT if key in skip.detail)
            counts["+".join(named) or f"none, {skip.reason}"] += 1
            fewer = [less for n in range(len(named)) for less in combinations(named, n)]
            is_true = (
                case.gives(skip.subject, named)
                if named
                else not any(
                    case.gives(skip.subject, lifted)
                    for n in range(1, len(WITHOUT) + 1)
                    for lifted in combinations(WITHOUT, n)
                )
            )
            if not is_true or any(case.gives(skip.subject, less) for less in fewer):
                false.append(f"{name} {seed}: {skip.sentence}")
            if REST in named and not case.gives(
                skip.subject, tuple(key for key in named if key != REST), later_s=_minutes(skip)
            ):
                false.append(f"{name} {seed}: does not end then: {skip.sentence}")
    return counts, false


def _has_end(skip: Skip) -> bool:
    return "until" in skip.detail or "rests for" in skip.detail


def _minutes(skip: Skip) -> float:
    words = skip.detail.partition("rests for ")[2].split(" ")
    return float(words[0]) * 60.0


@pytest.mark.parametrize("name", POLICIES)
def test_a_reason_of_a_strategy_is_as_a_judge_finds_it_that_lifts_every_subset(name: str) -> None:
    counts, false = judged(name)
    assert false == []
    assert counts[REST] >= 2, counts


def test_each_setting_that_restricts_a_strategy_is_named_by_some_reason() -> None:
    counts = sum((judged(name)[0] for name in POLICIES), Counter[str]())
    named = {key: sum(n for each, n in counts.items() if key in each.split("+")) for key in WITHOUT}
    assert min(named.values()) >= 2, named


def test_a_receiver_that_is_silent_is_named_with_the_key() -> None:
    supply = iter(RINGS[0].bundles)
    full = {next(supply): stats(300) for _ in range(3)}
    other = {next(supply): stats(300) for _ in range(3)}
    reports = [broker("b1", 0.9, full), broker("b2", 0.1, age_s=1e6), broker("b3", 0.88, other)]
    view, rules = cluster(reports, rings=RINGS), SheddingRules(report_ttl_s=1800.0)
    decisions = OverloadShedder().shed(view, NoMemory(), rules)
    found = lifting.tried(OverloadShedder(), view, NoMemory(), rules, decisions)
    (skip,) = [each for each in found if isinstance(each, Skip) and each.subject == "b1"]
    assert skip.reason is Reason.STALE_REPORT
    assert skip.detail.startswith("b2 would receive, but its last report is older than 1800 s")
    assert f"({SILENT}), until the next one" in skip.detail


@pytest.mark.parametrize("name", POLICIES)
def test_a_reason_that_is_planted_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifting, "tried", lambda *args: args[-1])
    assert len(judge(name)[1]) > 5


# Splits and merges.

SPLIT_WITHOUT: Mapping[str, Callable[[SplitRules], SplitRules]] = {
    "loadBalancerNamespaceMaximumBundles": lambda r: replace(r, max_bundles_per_namespace=10**6),
    "loadBalancerMaxNumberOfBundlesToSplitPerCycle": lambda r: replace(r, max_per_cycle=10**6),
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": lambda r: replace(r, hit_count=0),
    "statsUpdateFrequencyInSecs": lambda r: replace(r, cool_down_s=0.0),
}
MERGE_WITHOUT: Mapping[str, Callable[[MergeRules], MergeRules]] = {
    "loadBalancerNamespaceMinimumBundles": lambda r: replace(r, min_bundles=0),
    "loadBalancerMaxNumberOfBundlesToMergePerCycle": lambda r: replace(r, max_per_cycle=10**6),
    "loadBalancerBundleMergeConditionHitCountThreshold": lambda r: replace(r, hit_count=-1),
    "loadBalancerBundleMergeCoolDownMinutes": lambda r: replace(r, cool_down_s=0.0),
}


def _ring_view(dice: random.Random, sizes: tuple[float, ...]) -> ClusterView:
    ring = RINGS[0]
    lines: dict[str, dict[Bundle, Any]] = {"b1": {}, "b2": {}}
    for bundle in ring.bundles:
        owner = dice.choice(("b1", "b1", "b1", "b2"))
        lines[owner][bundle] = stats(dice.choice(sizes), topics=dice.choice((1, 2, 10)))
    young = {each: NOW_S - 30.0 for each in ring.bundles if dice.random() < 0.3}
    reports = [broker(each, 0.3, line) for each, line in lines.items()]
    return cluster(reports, rings=[ring], split_s=young)


def test_a_reason_not_to_split_names_all_that_keeps_the_bundle_whole() -> None:
    counts: Counter[str] = Counter()
    for seed in range(CASES):
        dice = random.Random(seed)
        view = _ring_view(dice, (10, 300))
        rules = SplitRules(
            max_bundles_per_namespace=dice.choice((16, 128)),
            max_per_cycle=dice.choice((0, 2, 10)),
            hit_count=dice.choice((0, 2)),
        )
        hits = splits.observe(Streaks(), view, rules)
        for skip in splits.candidates(view, rules, hits):
            if not isinstance(skip, Skip):
                continue
            assert "until" in skip.detail or "rests for" in skip.detail, skip.sentence
            named = [key for key in SPLIT_WITHOUT if key in skip.detail.partition("; it has")[0]]
            is_fit = not {"topics, until", "its one topic"} & {
                words for words in ("topics, until", "its one topic") if words in skip.detail
            }
            for count in range(len(named) + 1):
                for lifted in combinations(named, count):
                    # Lifted for one bundle, it must not let others use up the cycle.
                    changed = rules
                    if count == len(named):
                        changed = replace(rules, max_per_cycle=10**6)
                    for key in lifted:
                        changed = SPLIT_WITHOUT[key](changed)
                    subjects = {
                        str(each.bundle)
                        for each in splits.candidates(view, changed, hits)
                        if not isinstance(each, Skip)
                    }
                    is_split = skip.subject in subjects
                    assert is_split == (is_fit and count == len(named)), (skip.sentence, lifted)
            counts.update(named)
    assert set(counts) == set(SPLIT_WITHOUT)
    assert min(counts.values()) > 10, counts


def test_a_reason_not_to_merge_names_all_that_keeps_the_pair_apart() -> None:
    counts: Counter[str] = Counter()
    for seed in range(CASES):
        dice = random.Random(seed)
        view = _ring_view(dice, (0, 300))
        rules = MergeRules(
            min_bundles=dice.choice((4, 16)),
            max_per_cycle=dice.choice((0, 1, 10)),
            hit_count=dice.choice((0, 2)),
        )
        hits = merges.observe(Streaks(), view, rules)
        for skip in merges.candidates(view, rules, hits):
            if not isinstance(skip, Skip):
                continue
            assert "until" in skip.detail or "rests for" in skip.detail, skip.sentence
            pair = set(re.findall(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}", skip.detail)[:2])
            named = [key for key in MERGE_WITHOUT if key in skip.detail]
            # Lifted for one pair, it must not let others use up the cycle.
            changed = replace(rules, max_per_cycle=10**6)
            for key in named:
                changed = MERGE_WITHOUT[key](changed)
            done = {
                str(bundle.range)
                for each in merges.candidates(view, changed, hits)
                if not isinstance(each, Skip)
                for bundle in each.bundles
            }
            # Of two that are to be merged elsewhere, one goes to where the other is.
            done |= {
                span
                for each in merges.candidates(view, changed, hits)
                if not isinstance(each, Skip)
                for span in re.findall(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}", each.detail)
            }
            assert pair & done or not named, (skip.sentence, done)
            counts.update(named)
    assert set(counts) == set(MERGE_WITHOUT)
    assert min(counts.values()) > 5, counts


def test_the_keys_are_settings() -> None:
    for keys in (WITHOUT, SPLIT_WITHOUT, MERGE_WITHOUT):
        assert keys.keys() <= DECLARATIONS.keys()


if __name__ == "__main__":
    for policy_name in POLICIES:
        found, lies = judge(policy_name)
        print(policy_name, dict(found), len(lies), "false")  # noqa: T201
        print("\n".join(lies[:6]))  # noqa: T201
