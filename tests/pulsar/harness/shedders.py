"""What each shedder does, with or without each departure.

With none of them it has to decide as ours does; with all of them as Pulsar's class does. The
fewest departures that lead from the one answer to the other explain the difference of a case: only
a calculation that gives Pulsar's very answer explains it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import fsum
from typing import Any, Final

import numpy as np

from broker_ctl.core.cluster.imbalance import improves
from broker_ctl.core.model.load import SystemUsage, UsageWeights, max_usage
from broker_ctl.core.model.names import Bundle
from tests.pulsar.harness.departures import Departure
from tests.pulsar.harness.our_side import Cycle, Move, Moves

_GRACE_MARGIN: Final = 0.05
_HALF: Final = 0.5
_INT_MAX: Final = 2**31 - 1
_MIB: Final = 1024 * 1024

On = frozenset[Departure]

_bundle = lru_cache(maxsize=1 << 14)(Bundle.parse)


@dataclass(frozen=True, slots=True)
class Seen:
    """One cycle under some departures; ``decided`` has the order of Pulsar's hash maps."""

    cycle: Cycle
    decided: Any
    on: On

    @property
    def brokers(self) -> list[str]:
        """Brokers in the order in which equals are taken."""
        return self.decided["brokers"] if Departure.TIE in self.on else sorted(self.cycle.reports)

    def usage(self, broker: str) -> float:
        usage, weights = self.cycle.reports[broker].usage, self.cycle.rules.weights
        return (
            single(usage, weights) if Departure.ROUNDING in self.on else max_usage(usage, weights)
        )

    def mean(self, values: Sequence[float]) -> float:
        total = sum(values) if Departure.ROUNDING in self.on else fsum(values)
        return total / len(values)

    def total(self, broker: str, kind: str) -> float:
        """What a broker reports: ``msg_rate`` or ``throughput``."""
        return float(getattr(self.cycle.reports[broker].total, kind))

    def heaviest(self, broker: str, kind: str, receiver: str | None) -> list[tuple[str, float]]:
        """Bundles that may go, heaviest first, with their short-term averages."""
        order = self.decided["bundles"] if Departure.TIE in self.on else self._by_name()
        lines = self.cycle.reports[broker].bundles
        known = [key for key in order if key in lines and not _bundle(key).namespace.is_pinned]
        grace_s = self.cycle.rules.shedding.grace_s
        rested = [k for k in known if not self.cycle.unloaded_s.get(k, grace_s) < grace_s]
        if Departure.NO_GAIN not in self.on:
            rested = [key for key in rested if self._gains(broker, receiver, key)]
        loads = [(key, float(getattr(self.cycle.averages[key].short, kind))) for key in rested]
        return sorted(loads, key=lambda item: -item[1])

    def is_sole(self, broker: str, *, counts: Departure = Departure.HEARTBEAT_COUNTS) -> bool:
        """Whether it has nothing to spare."""
        keys = self.cycle.reports[broker].bundles
        if counts not in self.on:
            return sum(not _bundle(key).namespace.is_pinned for key in keys) < 2
        return counts is Departure.HEARTBEAT_COUNTS and len(keys) < 2

    def _by_name(self) -> list[str]:
        parsed = {_bundle(key): key for key in self.cycle.averages}
        return [parsed[bundle] for bundle in sorted(parsed)]

    def _gains(self, source: str, receiver: str | None, key: str) -> bool:
        view = self.cycle.view
        others = [b.expected for name, b in view.brokers.items() if name != source]
        coolest = min(others, key=lambda load: (load.usage_ratio, load.throughput_bytes))
        there = view.brokers[receiver].expected if receiver else coolest
        moved = view.bundles[_bundle(key)].load_vector
        return improves(view.brokers[source].expected, there, moved)


def single(usage: SystemUsage, weights: UsageWeights) -> float:
    """Usage from 32-bit fractions (docs: pulsar-load-data)."""
    factors = (weights.cpu, weights.direct_memory, weights.bandwidth_in, weights.bandwidth_out)
    resources = (usage.cpu, usage.direct_memory, usage.bandwidth_in, usage.bandwidth_out)
    return (
        max(
            (
                float(np.float32(each.usage) / np.float32(each.limit) * np.float32(100)) * factor
                if each.limit > 0
                else 0.0
            )
            for each, factor in zip(resources, factors, strict=True)
        )
        / 100
    )


def _until(loads: Iterable[tuple[str, float]], target: float) -> list[str]:
    """The first bundles whose load reaches the target, and at least one."""
    chosen: list[str] = []
    taken = 0.0
    for key, load in loads:
        if chosen and taken >= target:
            break
        chosen.append(key)
        taken += load
    return chosen


def _given(seen: Seen, broker: str, target: float) -> Iterator[Move]:
    if not seen.is_sole(broker):
        for key in _until(seen.heaviest(broker, "throughput", None), target):
            yield broker, key, None


def overload(cycles: Iterable[Seen]) -> Iterator[Moves]:
    """5.1."""
    for seen in cycles:
        limit = seen.cycle.rules.shedding.overload.overloaded_ratio
        moves: list[Move] = []
        for broker in seen.brokers:
            usage = seen.usage(broker)
            if usage >= limit:
                target = (usage - limit + _GRACE_MARGIN) * seen.total(broker, "throughput")
                moves += _given(seen, broker, target)
        yield frozenset(moves)


@dataclass(slots=True)
class _Threshold:
    """5.2; the averages live as long as it does."""

    history: dict[str, float] = field(default_factory=dict)

    def moves(self, seen: Seen) -> Iterator[Move]:
        rules = seen.cycle.rules.shedding
        mean = self._fold(seen)
        moved = False
        for broker in seen.brokers:
            level = self._level(seen, broker, min)
            if self._excess(seen, level, mean) < 0:
                continue
            excess = self._excess(seen, level, mean) + _GRACE_MARGIN
            target = excess * seen.total(broker, "throughput")
            if target >= rules.min_throughput_bytes:
                for move in _given(seen, broker, target):
                    moved = True
                    yield move
        if rules.is_lower_boundary_enabled and not moved:
            yield from self._towards_idle(seen, mean)

    def _towards_idle(self, seen: Seen, mean: float) -> Iterator[Move]:
        rules = seen.cycle.rules.shedding
        if Departure.SECOND_UPDATE in seen.on:
            mean = self._fold(seen)
        low = mean - rules.threshold_ratio
        if not any(self._level(seen, broker, max) < low for broker in seen.brokers):
            return
        givers = [
            broker
            for broker in seen.brokers
            if self._level(seen, broker, min) > low and len(seen.cycle.reports[broker].bundles) > 1
        ]
        if not givers:
            return
        giver = max(givers, key=lambda broker: self._level(seen, broker, min))
        target = seen.total(giver, "throughput") * rules.threshold_ratio * _HALF
        if target >= rules.min_throughput_bytes:
            yield from _given(seen, giver, target)

    def _fold(self, seen: Seen) -> float:
        keep = seen.cycle.rules.shedding.history_ratio
        self.history = {
            broker: self.history[broker] * keep + (1 - keep) * seen.usage(broker)
            if broker in self.history
            else seen.usage(broker)
            for broker in seen.brokers
        }
        return seen.mean([*self.history.values()])

    def _level(self, seen: Seen, broker: str, pick: Callable[[float, float], float]) -> float:
        history = self.history[broker]
        lags = Departure.LAGGING_AVERAGE in seen.on
        return history if lags else pick(history, seen.usage(broker))

    def _excess(self, seen: Seen, level: float, mean: float) -> float:
        threshold = seen.cycle.rules.shedding.threshold_ratio
        if Departure.ROUNDING in seen.on:
            return -1.0 if level < mean + threshold else level - mean - threshold
        return -1.0 if level < mean + threshold else level - (mean + threshold)


def threshold(cycles: Iterable[Seen]) -> Iterator[Moves]:
    """5.2."""
    one = _Threshold()
    for seen in cycles:
        yield frozenset(one.moves(seen))


def uniform(cycles: Iterable[Seen]) -> Iterator[Moves]:
    """5.3."""
    for seen in cycles:
        limits = seen.cycle.rules.shedding.uniform
        rate, throughput = _Gap.of(seen, "msg_rate"), _Gap.of(seen, "throughput")
        percent = (rate.highest - rate.lowest) * 100 / rate.lowest
        if 0 < limits.msg_rate_percent < percent:
            yield frozenset(rate.moves(seen))
        elif 0 < limits.throughput_multiple < throughput.highest / throughput.lowest:
            yield frozenset(throughput.moves(seen))
        else:
            yield frozenset()


@dataclass(frozen=True, slots=True)
class _Gap:
    kind: str
    source: str
    highest: float
    lowest: float

    @classmethod
    def of(cls, seen: Seen, kind: str) -> "_Gap":
        loads = {broker: seen.total(broker, kind) for broker in seen.brokers}
        source = max(loads, key=lambda broker: loads[broker])
        lowest = min(loads.values())
        if Departure.NO_MINIMUM in seen.on:
            lowest = min(lowest, float(_INT_MAX))
        return cls(kind, source, loads[source], lowest if abs(lowest) > 1e-6 else 1.0)

    def moves(self, seen: Seen) -> Iterator[Move]:
        rules = seen.cycle.rules.shedding
        wanted = int((self.highest - self.lowest) * rules.difference.max_ratio)
        overflows = Departure.INT_OVERFLOW in seen.on
        if overflows:
            wanted = min(wanted, _INT_MAX)
        least = (
            rules.difference.min_msg_rate
            if self.kind == "msg_rate"
            else rules.difference.min_throughput_bytes
        )
        if wanted < least or seen.is_sole(self.source):
            return
        more = 1000 if Departure.PLUS_1000 in seen.on else 0
        least_traffic = 0.0 if Departure.IDLE_BUNDLES in seen.on else 1e-9
        left, count = wanted, 0
        for key, traffic in seen.heaviest(self.source, self.kind, None):
            if count == rules.uniform.max_bundles:
                return
            room = _wrapped(left + more) if overflows else left + more
            if least_traffic <= traffic <= room:
                yield self.source, key, None
                left -= int(traffic)
                count += 1


def _wrapped(value: int) -> int:
    """A number as 32 bits hold it."""
    return (value + 2**31) % 2**32 - 2**31


@dataclass(slots=True)
class _Avg:
    """5.4; hits and plans live as long as it does."""

    low: dict[str, int] = field(default_factory=dict)
    high: dict[str, int] = field(default_factory=dict)

    def moves(self, seen: Seen) -> Moves:
        rules = seen.cycle.rules.shedding.avg
        if Departure.HITS_OF_THE_GONE not in seen.on:
            self._forget(set(self.low) - set(seen.brokers))
        moves: list[Move] = []
        pairs = []
        for hot, cool in self._paired(seen):
            points = self._points(seen, hot, cool)
            if points < rules.low_points:
                self._forget({hot, cool})
                continue
            pairs.append((hot, cool))
            for broker in (hot, cool):
                self.low[broker] = self.low.get(broker, 0) + 1
                is_high = points >= rules.high_points
                self.high[broker] = self.high.get(broker, 0) + 1 if is_high else 0
        if not pairs:
            self._forget({*self.low, *self.high})
        for hot, cool in pairs:
            low = max(self.low[hot], self.low[cool])
            if low >= rules.low_hits or max(self.high[hot], self.high[cool]) >= rules.high_hits:
                self._forget({hot, cool})
                moves += _evened(seen, hot, cool)
        return frozenset(_planned(seen, moves))

    def _paired(self, seen: Seen) -> Iterator[tuple[str, str]]:
        order = seen.decided["scored"] if Departure.TIE in seen.on else seen.brokers
        ranked = sorted(order, key=seen.usage)
        for place in range((len(ranked) + 1) // 2):
            yield ranked[-1 - place], ranked[place]

    def _points(self, seen: Seen, hot: str, cool: str) -> float:
        if Departure.ROUNDING in seen.on:
            return seen.usage(hot) * 100.0 - seen.usage(cool) * 100.0
        return round((seen.usage(hot) - seen.usage(cool)) * 100, 9)

    def _forget(self, brokers: set[str]) -> None:
        for broker in brokers:
            self.low.pop(broker, None)
            self.high.pop(broker, None)


def _evened(seen: Seen, hot: str, cool: str) -> Iterator[Move]:
    rules = seen.cycle.rules.shedding.difference
    least = {"msg_rate": rules.min_msg_rate, "throughput": rules.min_throughput_bytes}
    for kind, minimum in least.items():
        left = (seen.total(hot, kind) - seen.total(cool, kind)) * rules.max_ratio
        if left <= minimum:
            continue
        if seen.is_sole(hot, counts=Departure.SOLE_BUNDLE):
            return
        for key, traffic in seen.heaviest(hot, kind, cool):
            if 0 < traffic <= left:
                yield hot, key, cool
                left -= traffic
        return


def _planned(seen: Seen, moves: Sequence[Move]) -> Iterator[Move]:
    """The moves as Pulsar finds them: it keeps one plan for all bundles with equal averages."""
    if Departure.SHARED_PLAN not in seen.on:
        yield from moves
        return
    plans = {seen.cycle.averages[key]: cool for _, key, cool in moves}
    for hot, key, _ in moves:
        yield hot, key, plans[seen.cycle.averages[key]]


def avg(cycles: Iterable[Seen]) -> Iterator[Moves]:
    """5.4."""
    one = _Avg()
    for seen in cycles:
        yield one.moves(seen)


_ALL: Final = (Departure.NO_GAIN, Departure.TIE, Departure.ROUNDING)
SHEDDERS: Final[dict[str, tuple[Callable[[Iterable[Seen]], Iterator[Moves]], On]]] = {
    "OverloadShedder": (overload, frozenset({*_ALL, Departure.HEARTBEAT_COUNTS})),
    "ThresholdShedder": (
        threshold,
        frozenset(
            {
                *_ALL,
                Departure.HEARTBEAT_COUNTS,
                Departure.LAGGING_AVERAGE,
                Departure.SECOND_UPDATE,
            }
        ),
    ),
    "UniformLoadShedder": (
        uniform,
        frozenset(
            {
                *_ALL,
                Departure.HEARTBEAT_COUNTS,
                Departure.NO_MINIMUM,
                Departure.INT_OVERFLOW,
                Departure.PLUS_1000,
                Departure.IDLE_BUNDLES,
            }
        ),
    ),
    "AvgShedder": (
        avg,
        frozenset(
            {
                *_ALL,
                Departure.SOLE_BUNDLE,
                Departure.HITS_OF_THE_GONE,
                Departure.SHARED_PLAN,
            }
        ),
    ),
}
