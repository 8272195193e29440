"""Which bundles have too much to stay whole (reference: pulsar-load-management 7)."""

import math
from collections import Counter
from dataclasses import dataclass

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Reason, Skip, Split
from broker_ctl.core.footprint import throughput_text
from broker_ctl.core.names import Namespace
from broker_ctl.core.rules import SplitRules
from broker_ctl.core.splitting.range_equally_divide import middle_of, range_equally_divide
from broker_ctl.core.view import BundleView, ClusterView


@dataclass(frozen=True, slots=True)
class _Excess:
    """The first limit that a bundle is above, and how far it is above its worst one."""

    bundle: Bundle
    owner: str
    topics: int
    last_split_s: float | None
    reason: Reason
    detail: str
    times: float


def candidates(view: ClusterView, rules: SplitRules) -> tuple[Split | Skip, ...]:
    """A `Split` for what is above a limit, a `Skip` for what is and cannot be split; worst first.

    Topics and sessions are judged on the owner's report, rate and bandwidth on the short-term
    average: Pulsar's modular load manager takes the long-term one, which notices a bundle that
    turned hot only after some hundred samples. A bundle that its owner has not reported is not
    judged: what is known of it is from before a move or a split.
    """
    found = [excess for seen in view.bundles.values() if (excess := _excess(seen, rules))]
    found.sort(key=lambda excess: (-excess.times, excess.bundle))
    pending = Counter(bundle.namespace for bundle in view.splitting)
    chosen = 0
    decisions: list[Split | Skip] = []
    for excess in found:
        obstacle = _unfit(view, rules, excess) or _limit(view, rules, excess, pending, chosen)
        if obstacle:
            reason, detail = obstacle
            decisions.append(Skip(str(excess.bundle), reason, f"{detail}; it has {excess.detail}"))
            continue
        pending[excess.bundle.namespace] += 1
        chosen += 1
        decisions.append(_split(excess, rules))
    return tuple(decisions)


def _excess(seen: BundleView, rules: SplitRules) -> _Excess | None:
    current, average = seen.current, seen.load.short
    if current is None or seen.owner is None:
        return None
    measures = (
        (Reason.TOPICS, current.topics, rules.max_topics, "topics"),
        (Reason.SESSIONS, current.sessions, rules.max_sessions, "sessions"),
        (Reason.MSG_RATE, average.msg_rate, rules.max_msg_rate, "msg/s"),
        (Reason.BANDWIDTH, average.throughput, rules.max_bandwidth_bytes, ""),
    )
    above = [measure for measure in measures if 0 < measure[2] < measure[1]]
    if not above:
        return None
    reason, value, limit, unit = above[0]
    if reason is Reason.BANDWIDTH:
        detail = f"{throughput_text(value)}, more than {throughput_text(limit)}"
    else:
        detail = f"{value:,.0f} {unit}, more than {limit:,.0f}"
    return _Excess(
        seen.bundle,
        seen.owner,
        current.topics,
        seen.last_split_s,
        reason,
        detail,
        max(value / limit for _, value, limit, _ in above),
    )


def _unfit(view: ClusterView, rules: SplitRules, excess: _Excess) -> tuple[Reason, str] | None:
    """The first reason why this bundle cannot be split, whatever else is planned."""
    bundle, topics = excess.bundle, excess.topics
    age_s = math.inf if excess.last_split_s is None else view.taken_at_s - excess.last_split_s
    obstacles = (
        (bundle.namespace.is_pinned, Reason.PINNED, "it belongs to its broker"),
        (view.is_busy(bundle), Reason.MOVING, "a move or a split of it is under way"),
        (not view.is_in_ring(bundle), Reason.GONE, "it is no bundle of its namespace any more"),
        (
            topics < rules.min_topics,
            Reason.TOO_FEW_TOPICS,
            f"fewer than {rules.min_topics} topics",
        ),
        (not bundle.range.can_split, Reason.INDIVISIBLE, "its range is a single hash"),
        (age_s < rules.cool_down_s, Reason.COOLING_DOWN, f"a split made it {age_s:.0f} s ago"),
    )
    return next(((reason, detail) for stands, reason, detail in obstacles if stands), None)


def _limit(
    view: ClusterView,
    rules: SplitRules,
    excess: _Excess,
    pending: Counter[Namespace],
    chosen: int,
) -> tuple[Reason, str] | None:
    """Why this bundle must wait for others."""
    namespace = excess.bundle.namespace
    count = len(view.rings[namespace].bundles) + pending[namespace]
    if count >= rules.max_bundles_per_namespace:
        limit = rules.max_bundles_per_namespace
        return Reason.MAX_BUNDLES, f"{namespace} has {count} bundles of at most {limit}"
    if chosen >= rules.max_per_cycle:
        return Reason.CYCLE_LIMIT, f"{chosen} splits are planned in this cycle"
    return None


def _split(excess: _Excess, rules: SplitRules) -> Split:
    # Only the owner knows the topics: whatever needs them is cut there.
    is_known = rules.algorithm == range_equally_divide.__name__
    boundaries = middle_of(excess.bundle.range) if is_known else ()
    return Split(
        excess.bundle, excess.owner, rules.algorithm, boundaries, excess.reason, excess.detail
    )
