"""Who is slow in one round: needs far more than its peers, or than it used to, for its traffic.

A broker is slow when a byte (`cost`) takes above some times what it takes its peers, or when that
relation to its peers is above some times what it usually was: either is enough, since a sick broker
may have been sick from the start, and a strong one may have become sick and not be the dearest
by far yet. What all brokers share (the hour, smaller messages everywhere) changes no such relation.
What lasts becomes the rule for the broker's own history, and then its peers alone decide.

Who has too little traffic or usage is not judged: an idle machine uses something for nothing, and
would look dear.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Final

from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.core.rules.balance import SlowRules
from broker_ctl.core.strategies.balance.cost import Sample

_MIB: Final = 1024 * 1024
# With one peer it is unknown which of the two is odd.
_FEWEST_PEERS: Final = 2
_OWN_PERCENTILE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Finding:
    """One broker in one round.

    Attributes:
        is_judged: False where too little is known; then it is not slow.
        cost: part of a median broker for a byte/s; 0 where it was not judged by it.
        peers_cost: median of its peers, likewise.
        own_multiple: 90th percentile of its history, in medians of its peers; None: no history.
        text: why, with figures.
    """

    is_judged: bool
    is_slow: bool
    text: str
    cost: float = 0.0
    peers_cost: float = 0.0
    own_multiple: float | None = None

    @property
    def multiple(self) -> float | None:
        """Cost in medians of the peers; None where it was not judged by it."""
        return self.cost / self.peers_cost if self.peers_cost > 0 else None


ABSENT: Final = Finding(is_judged=False, is_slow=False, text="it is not there")


def findings(
    samples: Mapping[str, Sample], histories: Mapping[str, tuple[float, ...]], rules: SlowRules
) -> dict[str, Finding]:
    """Each broker of ``samples``; ``histories`` are what ``Finding.multiple`` was, latest last."""
    hindrances = {key: _hindrance(sample, rules) for key, sample in samples.items()}
    ordered = sorted(samples[key].cost for key, why in hindrances.items() if why is None)
    found: dict[str, Finding] = {}
    for broker_id, why in hindrances.items():
        sample = samples[broker_id]
        if why is None:
            peers_cost = _median_without(ordered, sample.cost)
            history = histories.get(broker_id, ())
            found[broker_id] = _by_cost(sample.cost, peers_cost, history, rules)
        else:
            is_silent = sample.age_s > rules.report_age_s
            found[broker_id] = Finding(is_judged=is_silent, is_slow=is_silent, text=why)
    return found


def _hindrance(sample: Sample, rules: SlowRules) -> str | None:
    """Why a broker is not judged by its cost."""
    if sample.age_s > rules.report_age_s:
        return f"last heard of {sample.age_s:.0f} s ago, {rules.report_age_s:g} s are allowed"
    figures = (sample.usage_ratio, sample.throughput_bytes, sample.msg_rate, sample.cost)
    if not all(isfinite(figure) and figure >= 0 for figure in figures):
        return "its report makes no sense"
    if sample.throughput_bytes < rules.min_throughput_bytes:
        return f"{throughput_text(sample.throughput_bytes)} are too little to judge by"
    if sample.usage_ratio < rules.min_usage_ratio:
        return f"{sample.usage_ratio:.1%} used are too little to judge by"
    return None


def _by_cost(
    cost: float, peers_cost: float, history: tuple[float, ...], rules: SlowRules
) -> Finding:
    if peers_cost <= 0:
        return Finding(is_judged=False, is_slow=False, text="no peers to judge it by")
    multiple = cost / peers_cost
    own = _percentile(history) if len(history) >= rules.min_samples else None
    # A broker that is not dearer than its peers is not slow, however cheap it was.
    is_unlike_itself = own is not None and multiple > max(1.0, own * rules.own_times)
    usually = "no history yet" if own is None else f"nine times in ten at most {own:.1f}"
    text = (
        f"a MiB/s takes {cost * _MIB:.2%} of a median broker, {multiple:.1f} times the median of "
        f"its peers ({peers_cost * _MIB:.2%}); {usually}"
    )
    return Finding(
        is_judged=True,
        is_slow=multiple > rules.peers_times or is_unlike_itself,
        text=text,
        cost=cost,
        peers_cost=peers_cost,
        own_multiple=own,
    )


def _median_without(ordered: list[float], value: float) -> float:
    """Median of the others; 0 where they are too few."""
    count = len(ordered) - 1
    if count < _FEWEST_PEERS:
        return 0.0
    own = bisect_left(ordered, value)
    low, high = ((rank + (rank >= own)) for rank in ((count - 1) // 2, count // 2))
    return (ordered[low] + ordered[high]) / 2


def _percentile(history: tuple[float, ...]) -> float:
    return sorted(history)[ceil(_OWN_PERCENTILE * len(history)) - 1]
