"""The filters of placement: each rejects brokers for one reason."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil
from typing import Final, NamedTuple, Protocol, Self

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.broker import IsolationPolicy
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import PERSISTENT, Bundle, Namespace, PartitionCounts
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.rules.limits import BrokerLimits

# The result of a placement filter: feasible brokers, and why the others were rejected.


_MAX_EXPLAINED: Final = 3


class Rejection(NamedTuple):
    """Why a broker does not receive a bundle; ``words`` follow its id in a sentence."""

    reason: Reason
    words: str


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Feasible brokers, and the rejected ones in the order of their rejection."""

    feasible: tuple[str, ...]
    rejected: dict[str, Rejection] = field(default_factory=dict)

    @classmethod
    def by(cls, candidates: Sequence[str], reject: Callable[[str], Rejection | None]) -> Self:
        """Partition candidates: ``reject`` returns a rejection, or None for a feasible broker."""
        rejected = {
            broker_id: verdict
            for broker_id in candidates
            if (verdict := reject(broker_id)) is not None
        }
        if not rejected:
            return cls(tuple(candidates))
        return cls(tuple(each for each in candidates if each not in rejected), rejected)

    def then(self, later: "FilterResult") -> "FilterResult":
        """The result after the next filter, which was given the feasible brokers."""
        if not self.rejected:
            return later
        return FilterResult(later.feasible, {**self.rejected, **later.rejected})

    @property
    def reason(self) -> Reason:
        """Reason of the last rejection; NO_BROKER if there is none."""
        last = next(reversed(self.rejected.values()), None)
        return Reason.NO_BROKER if last is None else last.reason

    def for_broker(self, broker_id: str) -> "FilterResult":
        """The result for one broker alone."""
        return FilterResult(
            tuple(each for each in self.feasible if each == broker_id),
            {each: why for each, why in self.rejected.items() if each == broker_id},
        )

    def explain(self, sentence: str) -> str:
        """The sentence and the last three rejections, the latest first, and a count of the rest."""
        last = [
            f"{each} {why.words}"
            for each, why in islice(reversed(self.rejected.items()), _MAX_EXPLAINED)
        ]
        rest = len(self.rejected) - len(last)
        return "; ".join([sentence, *last, *([f"{rest} more passed over"] if rest else [])])


class Filter(Protocol):
    """One reason not to give a bundle to a broker."""

    def __call__(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> FilterResult:
        """Judge ``candidates``, all in ``view.brokers``."""
        ...


# The filters of placement: each rejects brokers for one reason.
#
# Docs: pulsar-placement, pulsar-isolation, pulsar-topic-names. `availability`, `pinned`,
# `isolation` and `capacity` are mandatory; the others are preferences that `pipeline` drops if
# they leave no broker.


def availability(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers that are not draining; brokers without a session are not in the view."""
    del bundle, rules

    def reject(broker_id: str) -> Rejection | None:
        broker = view.brokers.get(broker_id)
        if broker is None:
            return Rejection(Reason.NO_BROKER, "is not there")
        return Rejection(Reason.DRAINING, "is draining") if broker.is_draining else None

    return FilterResult.by(candidates, reject)


_SLA_TENANT: Final = "sla-monitor"


def home_broker(namespace: Namespace) -> str | None:
    """Return the home broker of a pinned namespace; None if the namespace is not pinned."""
    return namespace.name if namespace.is_pinned else None


def pinned(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept only the home broker of a pinned namespace.

    While the home broker is away, any broker may own an SLA namespace. No other broker may own a
    heartbeat namespace, because its answers would report the home broker as healthy.
    """
    del view, rules
    only = required_broker(bundle.namespace, candidates.__contains__)
    if only is None:
        return FilterResult(tuple(candidates))
    why = Rejection(Reason.PINNED, f"is not {only}, which it belongs to")
    return FilterResult.by(candidates, lambda broker_id: None if broker_id == only else why)


def required_broker(namespace: Namespace, can_receive: Callable[[str], bool]) -> str | None:
    """The only broker that may own a namespace; None: it is not pinned, or free for a time."""
    home = home_broker(namespace)
    if home is None or (namespace.tenant == _SLA_TENANT and not can_receive(home)):
        return None
    return home


def isolation(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept the brokers of the namespace's policy; without one, the shared brokers.

    Shared brokers are not a primary of any policy. Without a policy, a broker must also accept the
    domain (persistent or not) of the looked-up topic (``rules.domain``). If none does, those that
    accept non-persistent topics are feasible: the bundle may have topics of that kind, too.
    """
    if home_broker(bundle.namespace) in candidates:
        return FilterResult(tuple(candidates))
    policy = view.constraints.policy_of(bundle.namespace)
    if policy is not None:
        return _by_policy(view, policy, candidates, rules)
    shared = FilterResult(tuple(candidates))
    if view.constraints.isolation:
        shared = FilterResult.by(candidates, lambda broker_id: _reserved(view, broker_id))
    fit = FilterResult.by(shared.feasible, lambda each: _unfit(view.brokers[each], rules.domain))
    if not fit.feasible:
        fit = FilterResult.by(
            shared.feasible, lambda broker_id: _idle(view.brokers[broker_id], rules.domain)
        )
    return shared.then(fit)


def _by_policy(
    view: ClusterView, policy: IsolationPolicy, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    # Counted over the whole cluster: a broker that another filter rejected is available, too.
    able = view.receivers(rules.report_ttl_s)
    available = sum(policy.is_primary(broker_id) for broker_id in able)
    few = f"{available} of at least {policy.min_available} primaries are available"

    def reject(broker_id: str) -> Rejection | None:
        if policy.admits(broker_id, available):
            return None
        if not policy.is_secondary(broker_id):
            words = f"is neither primary nor secondary of policy {policy.name} ({few})"
            return Rejection(Reason.ISOLATION, words)
        return Rejection(Reason.ISOLATION, f"is only secondary of policy {policy.name} ({few})")

    return FilterResult.by(candidates, reject)


def _reserved(view: ClusterView, broker_id: str) -> Rejection | None:
    policy = view.constraints.reserved_by(broker_id)
    if policy is None:
        return None
    return Rejection(Reason.ISOLATION, f"is a primary of policy {policy.name}, for others only")


def _unfit(broker: BrokerView, domain: str) -> Rejection | None:
    takes = broker.takes_persistent if domain == PERSISTENT else broker.takes_non_persistent
    return None if takes else Rejection(Reason.TOPIC_KIND, f"takes no {domain} topics")


def _idle(broker: BrokerView, domain: str) -> Rejection | None:
    if broker.takes_non_persistent:
        return None
    if broker.takes_persistent:
        return _unfit(broker, domain)
    return Rejection(Reason.TOPIC_KIND, "takes neither kind of topics")


def max_topics(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers below the topic limit, or all if none is; promised topics count."""
    del bundle

    def reject(broker_id: str) -> Rejection | None:
        topics = view.brokers[broker_id].expected.topics
        if topics <= rules.max_topics:
            return None
        return Rejection(Reason.TOPICS, f"has {topics:,} topics, more than {rules.max_topics:,}")

    roomy = FilterResult.by(candidates, reject)
    return roomy if roomy.feasible else FilterResult(tuple(candidates))


def capacity(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers that stay within their limits with the bundle, and its present carrier."""
    seen = view.bundles.get(bundle)
    if not rules.limits:
        return FilterResult(tuple(candidates))
    carrier = None if seen is None else view.carrier(bundle)
    added = NO_LOAD if seen is None else seen.load_vector

    def reject(broker_id: str) -> Rejection | None:
        if broker_id == carrier:
            return None
        load = view.brokers[broker_id].held + added
        excess = rules.limits.of(broker_id).excess(load)
        return None if excess is None else Rejection(Reason.CAPACITY, f"would have {excess}")

    return FilterResult.by(candidates, reject)


def anti_affinity(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers, and failure domains, with the fewest namespaces of the group."""
    group = view.constraints.group_of.get(bundle.namespace)
    if group is None or not candidates:
        return FilterResult(tuple(candidates))
    counts = namespace_counts(view, group, candidates)
    in_domain = _by_failure_domain(view, group, counts) if rules.has_failure_domains else None
    kept = FilterResult(tuple(candidates)) if in_domain is None else in_domain
    least = min(counts[broker_id] for broker_id in kept.feasible)

    def reject(broker_id: str) -> Rejection | None:
        count = counts[broker_id]
        if count == least:
            return None
        words = f"serves {count} namespaces of group {group}, others {least}"
        return Rejection(Reason.ANTI_AFFINITY, words)

    return kept.then(FilterResult.by(kept.feasible, reject))


def namespace_counts(view: ClusterView, group: str, brokers: Sequence[str]) -> Mapping[str, int]:
    """Return the number of namespaces of a group that each broker serves."""
    group_of = view.constraints.group_of
    return {
        broker_id: sum(group_of.get(name) == group for name in view.brokers[broker_id].served)
        for broker_id in brokers
    }


def _by_failure_domain(view: ClusterView, group: str, counts: Mapping[str, int]) -> FilterResult:
    domain = view.constraints.domain
    sums: Counter[str] = Counter()
    for broker_id, count in counts.items():
        sums[domain(broker_id)] += count
    least = min(sums.values())

    def reject(broker_id: str) -> Rejection | None:
        count = sums[domain(broker_id)]
        if count == least:
            return None
        where = f"failure domain {domain(broker_id)}" if domain(broker_id) else "no failure domain"
        words = f"is in {where} with {count} namespaces of group {group}, others have {least}"
        return Rejection(Reason.ANTI_AFFINITY, words)

    return FilterResult.by(tuple(counts), reject)


# Its topics carry the cluster's own metadata: always spread, as in Pulsar.
_SYSTEM: Final = Namespace("pulsar", "system")


def even_spread(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers with the fewest bundles of the namespace; promised bundles count."""
    namespace = bundle.namespace
    if not candidates or not (rules.is_spread_evenly or namespace == _SYSTEM):
        return FilterResult(tuple(candidates))
    counts = {
        broker_id: view.brokers[broker_id].served.get(namespace, 0) for broker_id in candidates
    }
    least = min(counts.values())

    def reject(broker_id: str) -> Rejection | None:
        if counts[broker_id] == least:
            return None
        words = f"has {counts[broker_id]} bundles of {namespace}, others {least}"
        return Rejection(Reason.EVEN_SPREAD, words)

    return FilterResult.by(candidates, reject)


_VERSION: Final = re.compile(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})"
    r"(?:-([0-9A-Za-z.-]{1,64})|\.?([A-Za-z][0-9A-Za-z.]{0,63}))?"
    r"(?:\+.{0,255})?",
    re.ASCII,
)
_NUMBERS: Final = 6

_Version = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def latest_version(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers of the latest version; none if a version does not parse.

    In that case the pipeline drops all preferences, as in Pulsar.
    """
    del bundle
    if not candidates or not rules.prefers_later_versions:
        return FilterResult(tuple(candidates))
    texts = {broker_id: view.brokers[broker_id].load.version for broker_id in candidates}
    versions = {broker_id: version_of(text) for broker_id, text in texts.items()}
    read = [version for version in versions.values() if version is not None]
    if len(read) < len(versions):
        whose = next(broker_id for broker_id, version in versions.items() if version is None)
        words = f"cannot be compared: the version of {whose} is {texts[whose][:64]!r}"
        return FilterResult.by(candidates, lambda _: Rejection(Reason.VERSION, words))
    latest = max(read)

    def reject(broker_id: str) -> Rejection | None:
        if versions[broker_id] == latest:
            return None
        return Rejection(
            Reason.VERSION, f"is of {texts[broker_id][:64]}, not of the latest version"
        )

    return FilterResult.by(candidates, reject)


def version_of(text: str) -> _Version | None:
    """Return a comparable version: ``4.0.1`` is later than ``4.0.1-rc.2``; None: not a version."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    numbers = tuple(int(number) for number in found[1].split("."))
    before_it = found[2] or found[3] or ""
    parts = before_it.split(".") if before_it else []
    return (
        numbers + (0,) * (_NUMBERS - len(numbers)),
        not parts,
        tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts),
    )


# Filters that spread the partitions of a topic over brokers.
#
# Hard: a cap of the partitions of a topic on a broker (loadBalancerTopicPartitionsPerBroker).
# Soft: the brokers with the fewest partitions beyond an even share are preferred.


def topic_cap(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept brokers that stay within the cap with the bundle, and its present carrier."""
    added = view.constraints.topics.of(bundle) if rules.topic_cap else {}
    if not added:
        return FilterResult(tuple(candidates))
    carrier = view.carrier(bundle) if bundle in view.bundles else None

    def reject(broker_id: str) -> Rejection | None:
        if broker_id == carrier:
            return None
        held = view.brokers[broker_id].partitions
        for topic, count in sorted(added.items()):
            have = held.get(topic, 0) + count
            if have > rules.topic_cap:
                words = f"would have {have} partitions of {topic}, at most {rules.topic_cap}"
                return Rejection(Reason.TOPIC_SPREAD, words)
        return None

    return FilterResult.by(candidates, reject)


def topic_spread(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Accept the brokers with the fewest partitions of the bundle's topics beyond an even share."""
    del rules
    added = view.constraints.topics.of(bundle)
    if not added or not candidates:
        return FilterResult(tuple(candidates))
    fair = _fair(view, bundle, added)
    excess = {
        broker_id: sum(
            max(0, view.brokers[broker_id].partitions.get(topic, 0) + count - fair[topic])
            for topic, count in added.items()
        )
        for broker_id in candidates
    }
    least = min(excess.values())

    def reject(broker_id: str) -> Rejection | None:
        if excess[broker_id] == least:
            return None
        words = f"would have {excess[broker_id]} partitions beyond an even share, others {least}"
        return Rejection(Reason.TOPIC_SPREAD, words)

    return FilterResult.by(candidates, reject)


def cap_violations(view: ClusterView, cap: int) -> Iterator[tuple[str, str, int]]:
    """Broker, topic and partitions of each count above the cap, in order of the brokers."""
    if cap:
        for broker_id, broker in sorted(view.brokers.items()):
            for topic, count in sorted(_above(broker, cap).items()):
                yield broker_id, topic, count


def _above(broker: BrokerView, cap: int) -> Mapping[str, int]:
    return {topic: count for topic, count in broker.partitions.items() if count > cap}


def _fair(view: ClusterView, bundle: Bundle, added: PartitionCounts) -> Mapping[str, int]:
    """Partitions of each topic on a broker that has no more than its share."""
    carrying = sum(not broker.is_draining for broker in view.brokers.values())
    total, namespace = view.constraints.topics.total, bundle.namespace
    return {topic: ceil(total(namespace, topic) / max(1, carrying)) for topic in added}


# Brokers that are beyond what operators allow: limits of brokers, and caps of topics.


_CAP_KEY: Final = "loadBalancerTopicPartitionsPerBroker"


def broken_limits(
    view: ClusterView, limits: BrokerLimits, topic_cap: int
) -> Mapping[str, tuple[Reason, str]]:
    """By broker, the first limit or cap that it exceeds, in words; draining ones give anyway."""
    found = {
        broker.broker_id: (Reason.CAPACITY, text)
        for broker in _able(view)
        if (text := limits.of(broker.broker_id).excess(broker.held)) is not None
    }
    for broker_id, topic, count in cap_violations(view, topic_cap):
        text = f"{count} partitions of {topic}, at most {topic_cap} ({_CAP_KEY})"
        found.setdefault(broker_id, (Reason.TOPIC_SPREAD, text))
    return found


def is_cluster_full(view: ClusterView, limits: BrokerLimits) -> bool:
    """Whether every broker that could receive is beyond a limit."""
    able = list(_able(view))
    return bool(able and limits) and all(
        limits.of(broker.broker_id).excess(broker.held) is not None for broker in able
    )


def limit_skips(view: ClusterView, limits: BrokerLimits) -> list[Skip]:
    """A skip for each broker beyond its limits, and one where no broker is left to receive."""
    if not limits:
        return []
    broken = broken_limits(view, limits, 0)
    skips = [
        Skip(
            broker_id,
            Reason.CAPACITY,
            f"{text} (loadBalancerBrokerLimits): until below, it receives nothing",
        )
        for broker_id, (_, text) in broken.items()
    ]
    if is_cluster_full(view, limits):
        text = (
            f"all {len(skips)} brokers are beyond their limits (loadBalancerBrokerLimits): no load "
            "moves until there are more brokers"
        )
        skips.append(Skip("cluster", Reason.CAPACITY, text))
    return skips


def _able(view: ClusterView) -> Iterator[BrokerView]:
    return (broker for _, broker in sorted(view.brokers.items()) if not broker.is_draining)
