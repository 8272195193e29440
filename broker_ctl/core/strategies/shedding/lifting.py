"""What keeps an overloaded broker from giving: the settings without which the strategy would act.

A strategy reports what it found in the end: "none fits". A rest period may have led to it. So each
setting that restricts a strategy is lifted, first alone, then with others, and the strategy is
asked again. A reason is a claim that was tried: without what it names the broker gives something,
with it nothing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView, rest_text
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy

# Of a broker that has been found overloaded; others say themselves what they are about.
_RESULTS: Final = frozenset(
    {
        Reason.LOW_THROUGHPUT,
        Reason.HOT_TOPIC,
        Reason.TOO_LARGE,
        Reason.SOLE_BUNDLE,
        Reason.NO_GAIN,
        Reason.NO_BROKER,
        Reason.IN_GRACE,
        Reason.EXCLUDED,
        Reason.MOVING,
        Reason.NOT_MEASURED,
        Reason.GONE,
        Reason.CYCLE_LIMIT,
    }
)
_SETTINGS: Final = frozenset({Reason.IN_GRACE, Reason.EXCLUDED})


@dataclass(frozen=True, slots=True)
class _Lift:
    """A setting, how it is lifted, and how it is reported; the text gets what would be given."""

    reason: Reason
    without: Callable[[SheddingRules], SheddingRules]
    text: Callable[[ClusterView, SheddingRules, Sequence[Bundle]], str]


def _rest(view: ClusterView, rules: SheddingRules, given: Sequence[Bundle]) -> str:
    unloaded = (view.bundles[each].last_unloaded_s for each in given)
    ends = [
        at_s + rules.grace_s
        for at_s in unloaded
        if at_s is not None and view.taken_at_s - at_s < rules.grace_s
    ]
    what = f"{given[0]} " if len(given) == 1 else f"{given[0]} and {len(given) - 1} more: it "
    return what + rest_text(view, max(ends, default=view.taken_at_s))


def _excluded(_view: ClusterView, rules: SheddingRules, given: Sequence[Bundle]) -> str:
    listed = next(each.namespace for each in given if each.namespace in rules.excluded_namespaces)
    return f"{listed} is listed in loadBalancerSheddingExcludedNamespaces"


def _policies(*_: object) -> str:
    return (
        "bundles of isolated or anti-affine namespaces stay until "
        "loadBalancerSheddingBundlesWithPoliciesEnabled is true"
    )


def _top(_view: ClusterView, rules: SheddingRules, _given: Sequence[Bundle]) -> str:
    return (
        f"only its {rules.transfer.top_bundles} heaviest bundles are looked at "
        "(loadBalancerMaxNumberOfBundlesInBundleLoadReport), until loads change"
    )


def _least(*_: object) -> str:
    return (
        "less would go than is worth a move (loadBalancerBundleUnloadMinThroughputThreshold, "
        "minUnloadMessage, minUnloadMessageThroughput), until loads change"
    )


def _share(_view: ClusterView, rules: SheddingRules, _given: Sequence[Bundle]) -> str:
    return (
        f"no more than {rules.difference.max_ratio:.0%} of a difference may go "
        "(maxUnloadPercentage), until loads change"
    )


def _count(_view: ClusterView, rules: SheddingRules, _given: Sequence[Bundle]) -> str:
    return f"{rules.uniform.max_bundles} bundles may go in a cycle (maxUnloadBundleNumPerShedding)"


def _silent(view: ClusterView, rules: SheddingRules, _given: Sequence[Bundle]) -> str:
    late = [each.broker_id for each in view.brokers.values() if each.age_s > rules.report_ttl_s]
    return (
        f"{', '.join(sorted(late)[:3])} would receive, but its last report is older than "
        f"{rules.report_ttl_s:.0f} s (loadBalancerBrokerLoadDataTTLInSeconds), until the next one"
    )


def _transfer(rules: SheddingRules, **changes: Any) -> SheddingRules:
    return replace(rules, transfer=replace(rules.transfer, **changes))


def _difference(rules: SheddingRules, **changes: Any) -> SheddingRules:
    return replace(rules, difference=replace(rules.difference, **changes))


def _no_least(rules: SheddingRules) -> SheddingRules:
    none = replace(rules, min_throughput_bytes=0.0)
    return _difference(none, min_msg_rate=0.0, min_throughput_bytes=0.0)


_LIFTS: Final = (
    _Lift(Reason.IN_GRACE, lambda rules: replace(rules, grace_s=0.0), _rest),
    _Lift(
        Reason.EXCLUDED, lambda rules: replace(rules, excluded_namespaces=frozenset()), _excluded
    ),
    _Lift(Reason.EXCLUDED, lambda rules: _transfer(rules, is_constrained_moved=True), _policies),
    _Lift(Reason.EXCLUDED, lambda rules: _transfer(rules, top_bundles=0), _top),
    _Lift(Reason.LOW_THROUGHPUT, _no_least, _least),
    _Lift(
        Reason.CYCLE_LIMIT,
        lambda rules: replace(rules, uniform=replace(rules.uniform, max_bundles=None)),
        _count,
    ),
    _Lift(
        Reason.TOO_LARGE,
        lambda rules: _difference(rules, max_ratio=max(0.5, rules.difference.max_ratio)),
        _share,
    ),
    _Lift(Reason.STALE_REPORT, lambda rules: replace(rules, report_ttl_s=math.inf), _silent),
)


def tried(
    policy: SheddingPolicy[Any],
    view: ClusterView,
    memory: Any,
    rules: SheddingRules,
    decisions: Sequence[Decision],
) -> Sequence[Decision]:
    """What the policy decided on the view with these rules; what keeps a broker is tried."""
    givers = {each.source for each in decisions if isinstance(each, Unload | Transfer)}
    attempt = _Attempt(policy, view, memory, rules, decisions)
    return [
        attempt.reported(each)
        if isinstance(each, Skip)
        and each.reason in _RESULTS
        and each.subject in view.brokers
        and each.subject not in givers
        else each
        for each in decisions
    ]


class _Attempt:
    """What a strategy would do without some settings; rules that are the same are tried once."""

    def __init__(
        self,
        policy: SheddingPolicy[Any],
        view: ClusterView,
        memory: Any,
        rules: SheddingRules,
        decisions: Sequence[Decision],
    ) -> None:
        self._policy, self._view, self._memory, self._rules = policy, view, memory, rules
        # A setting that restricts nothing leaves the rules as they are.
        self._known: dict[SheddingRules, Sequence[Decision]] = {rules: decisions}

    def reported(self, skip: Skip) -> Skip:
        """A skip with what was found."""
        for lifts in chain(((each,) for each in _LIFTS), _prefixes(), combinations(_LIFTS, 2)):
            if given := self._given(skip.subject, lifts):
                return self._said(skip, *self._fewest(skip.subject, lifts, given))
        if skip.reason not in _SETTINGS:
            return skip
        text = f"no setting keeps it, until loads change: {skip.detail}"
        return Skip(skip.subject, Reason.NO_GAIN, text)

    def _fewest(
        self, broker: str, lifts: tuple[_Lift, ...], given: list[Bundle]
    ) -> tuple[tuple[_Lift, ...], list[Bundle]]:
        """Without those that need not be lifted."""
        for each in lifts:
            fewer = tuple(other for other in lifts if other is not each)
            if fewer and (found := self._given(broker, fewer)):
                lifts, given = fewer, found
        return lifts, given

    def _said(self, skip: Skip, lifts: tuple[_Lift, ...], given: list[Bundle]) -> Skip:
        texts = (each.text(self._view, self._rules, given) for each in lifts)
        detail = "; and ".join(dict.fromkeys(texts))
        return Skip(skip.subject, lifts[0].reason, f"{detail}; {skip.detail}")

    def _given(self, broker: str, lifts: tuple[_Lift, ...]) -> list[Bundle]:
        rules = self._rules
        for each in lifts:
            rules = each.without(rules)
        if rules not in self._known:
            self._known[rules] = self._policy.shed(self._view, self._memory, rules)
        moves = [each for each in self._known[rules] if isinstance(each, Unload | Transfer)]
        given = [each.bundle for each in moves if each.source == broker]
        # What comes back in exchange has to be free as well.
        back = [m.bundle for m in moves if isinstance(m, Transfer) and m.destination == broker]
        return [*given, *back] if given else []


def _prefixes() -> Iterator[tuple[_Lift, ...]]:
    return (_LIFTS[:length] for length in range(2, len(_LIFTS) + 1))
