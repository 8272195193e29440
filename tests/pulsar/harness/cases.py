"""Clusters to decide on, drawn from a seed: what brokers report, what the leader has averaged.

All rates and bytes are whole numbers, so that sums do not depend on their order. Payloads are
those of the znodes (docs: pulsar-load-data): both sides read the same text.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from broker_ctl.core.model.names import Namespace, Ring

MIB: Final = 1024 * 1024
# Lines of reports in all cycles of a case: more make the comparison slow and show nothing new.
LINES: Final = 700
_SIZES: Final = (2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 16, 25, 50)
_SHAPES: Final = ("any", "one hot", "one idle", "all hot", "all empty", "halves", "giants")
# All bundles are alike in these.
_ALIKE: Final = ("equal", "twins")
_NAMESPACES: Final = (Namespace("tenant", "ns"), Namespace("other", "ns"))

Json = Mapping[str, Any]


@dataclass(slots=True)
class _Line:
    """One bundle: its traffic now, and its averages over the traffic now."""

    msg_rate: int
    throughput: int
    topics: int
    short_ratio: float = 1.0
    long_ratio: float = 1.0


@dataclass(slots=True)
class _Broker:
    """One broker; percents of its resources by name, and their limits."""

    percents: dict[str, int]
    limits: Mapping[str, int]
    lines: dict[str, _Line] = field(default_factory=dict)


def cases(seed: int, count: int, lines: int = LINES) -> Iterator[Json]:
    """``count`` cases of at most about ``lines`` lines of bundles, equal for equal seeds."""
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        yield _Maker(dice, f"case {seed}/{number}", lines).case()


class _Maker:
    """Makes one case."""

    def __init__(self, dice: random.Random, name: str, lines: int) -> None:
        self._dice = dice
        self._name = name
        self._lines = lines
        self._shape = dice.choice(_SHAPES + _ALIKE)
        # Averages follow at once in some cases; in others they lag, as they do.
        self._is_settled = dice.random() < 0.4
        # Bytes of a message; some clusters carry so much that 32 bits do not hold it.
        self._message_bytes = dice.choice((100, 1_000, 10_000, 1_000_000))
        self._busiest = dice.choice((30, 2_000, 2_000, 20_000))
        self._alike = self._line()

    def case(self) -> Json:
        dice = self._dice
        count = dice.choice([size for size in _SIZES if 8 * size <= self._lines])
        names = [f"broker-{number}:8080" for number in range(1, count + 1)]
        dice.shuffle(names)
        most = max(1, min(12, self._lines // (4 * count)))
        supply = iter(self._supply(count * most + 16))
        brokers = {name: self._broker(place, supply, most) for place, name in enumerate(names)}
        self._give_heartbeats(brokers)
        lines = sum(len(broker.lines) for broker in brokers.values()) + 1
        cycles = max(1, min(dice.choice((1, 1, 2, 3, 5, 9, 12)), self._lines // lines))
        # A draw from many brokers has to be repeated often: fewer choices there.
        most_choices = 6 if count <= 10 else 2
        placed = min(most_choices, dice.choice((0, 0, 1, 3, 6)))
        unowned = {next(supply): self._line() for _ in range(placed)}
        away = dice.choice(names) if count > 3 and dice.random() < 0.3 else None
        rows: list[Json] = []
        for number in range(cycles):
            if number:
                self._age(brokers)
            is_away = away is not None and number % 3 == 1
            present = {b: each for b, each in brokers.items() if not (is_away and b == away)}
            rows.append(self._cycle(present, unowned))
        return {"name": self._name, "settings": self._settings(), "cycles": rows}

    def _supply(self, count: int) -> list[str]:
        bundles = [
            str(bundle)
            for name in _NAMESPACES
            for bundle in Ring.even(name, 1 << (count // 2).bit_length()).bundles
        ]
        self._dice.shuffle(bundles)
        return bundles

    def _line(self) -> _Line:
        dice = self._dice
        if self._shape == "giants":
            # Ten of these are more than 32 bits hold, and about the same on every broker.
            return _Line(1000, dice.randrange(900_000_000, 1_000_000_000), 5)
        rate = dice.choice((0, dice.randrange(1, self._busiest), dice.randrange(1, self._busiest)))
        size = self._message_bytes if dice.random() < 0.8 else dice.randrange(10, 2_000_000)
        line = _Line(rate * 4, rate * 4 * size, dice.choice((1, 1, 5, 40)))
        if not self._is_settled:
            line.short_ratio = dice.choice((0.25, 0.5, 1.0, 1.0, 1.5, 4.0))
            line.long_ratio = dice.choice((0.25, 1.0, 2.0))
        return line

    def _broker(self, place: int, supply: Iterator[str], most: int) -> _Broker:
        dice = self._dice
        limits = {
            "cpu": dice.choice((100, 300, 800, 3200)) if dice.random() < 0.3 else 800,
            "memory": 2048,
            "directMemory": dice.choice((0, 4096)),
            "bandwidthIn": dice.choice((0, 0, 1_000_000, 10_000_000)),
            "bandwidthOut": dice.choice((0, 10_000_000)),
        }
        percent = self._percent(place)
        percents = {kind: dice.randrange(0, max(1, percent)) for kind in limits}
        percents["cpu"] = percent
        lines = {next(supply): self._line() for _ in range(self._count(place, most))}
        if self._shape in _ALIKE:
            lines = {key: replace(self._alike) for key in lines}
        return _Broker(percents, limits, lines)

    def _count(self, place: int, most: int) -> int:
        """How many bundles a broker has."""
        dice = self._dice
        some = dice.choice((0, 1, 2, most, most, dice.randrange(1, most + 1)))
        few = {"all empty": 0, "one idle": dice.choice((0, 1)), "twins": 1}
        if self._shape == "giants":
            return most
        return few[self._shape] if self._shape in few and self._is_cool(place) else some

    def _is_cool(self, place: int) -> bool:
        match self._shape:
            case "all empty":
                return True
            case "one idle":
                return place == 0
        return place % 2 == 1

    def _percent(self, place: int) -> int:
        dice = self._dice
        # Multiples of five stand at the thresholds themselves.
        percents = {
            "equal": 45,
            "one hot": dice.randrange(20, 60) if place else dice.choice((90, 95, 99)),
            "one idle": dice.choice((50, 55, 60)) if place else 0,
            "all hot": dice.randrange(86, 100),
            "halves": dice.choice((40, 65, 85)),
            "twins": dice.choice((65, 70, 90)),
            "all empty": dice.choice((0, 0, 5)),
        }
        if self._shape in ("halves", "twins") and self._is_cool(place):
            return dice.choice((20, 25))
        return percents.get(
            self._shape, dice.choice((dice.randrange(0, 100), 5 * dice.randrange(0, 20)))
        )

    def _give_heartbeats(self, brokers: Mapping[str, _Broker]) -> None:
        if self._dice.random() < 0.5:
            for name, broker in brokers.items():
                broker.lines[f"pulsar/{name}/0x00000000_0xffffffff"] = _Line(0, 0, 1)

    def _age(self, brokers: Mapping[str, _Broker]) -> None:
        """Half of the brokers change: as if bundles had come and gone, or by themselves."""
        dice = self._dice
        if self._shape in _ALIKE:
            return
        for broker in brokers.values():
            if dice.random() < 0.5:
                continue
            step = dice.choice((-40, -15, -5, 0, 5, 15))
            broker.percents["cpu"] = min(99, max(0, broker.percents["cpu"] + step))
            for line in broker.lines.values():
                if dice.random() < 0.2 and line.throughput:
                    line.msg_rate, line.throughput = line.msg_rate * 2, line.throughput * 2

    def _cycle(self, brokers: Mapping[str, _Broker], unowned: Mapping[str, _Line]) -> Json:
        dice = self._dice
        lines = {key: line for each in brokers.values() for key, line in each.lines.items()}
        ages = (10, 1_000, 1_790, 1_810, 4_000)
        unloaded = {key: dice.choice(ages) for key in lines if dice.random() < 0.1}
        candidates = [name for name in brokers if dice.random() < 0.8] or [*brokers]
        return {
            "brokers": {name: _report(each) for name, each in brokers.items()},
            "bundles": {key: _averages(line) for key, line in (lines | dict(unowned)).items()},
            "unloaded": unloaded,
            "choices": [{"bundle": key, "candidates": candidates} for key in unowned],
        }

    def _settings(self) -> dict[str, str]:
        dice = self._dice
        values = {
            "loadBalancerBrokerOverloadedThresholdPercentage": (85, 85, 50, 95),
            "loadBalancerBrokerThresholdShedderPercentage": (10, 10, 5, 20),
            "loadBalancerHistoryResourcePercentage": (0.9, 0.9, 0.5),
            "loadBalancerBundleUnloadMinThroughputThreshold": (10, 0.5, 0.5),
            "lowerBoundarySheddingEnabled": ("false", "true"),
            "maxUnloadPercentage": (0.2, 0.5, 1.0),
            "maxUnloadBundleNumPerShedding": (-1, -1, 1, 3),
            "minUnloadMessage": (1000, 10),
            "minUnloadMessageThroughput": (MIB, 1000),
            "loadBalancerMsgRateDifferenceShedderThreshold": (50, 50, 0),
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": (4, 2, 0),
            "loadBalancerAvgShedderLowThreshold": (15, 15, 5),
            "loadBalancerAvgShedderHighThreshold": (40, 40, 20),
            "loadBalancerAvgShedderHitCountLowThreshold": (8, 3, 1),
            "loadBalancerAvgShedderHitCountHighThreshold": (2, 1),
            "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": (10, 5),
            "loadBalancerDirectMemoryResourceWeight": (0, 0, 1),
            "loadBalancerCPUResourceWeight": (1, 1, 1, 0.5),
        }
        return {key: str(dice.choice(options)) for key, options in values.items()}


def _report(broker: _Broker) -> Json:
    lines = {key: _stats(line) for key, line in broker.lines.items()}
    summed = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    usage = {
        kind: {"usage": percent * broker.limits[kind] / 100, "limit": float(broker.limits[kind])}
        for kind, percent in broker.percents.items()
    }
    return {
        **usage,
        **{name: sum(line[name] for line in lines.values()) for name in summed},
        "lastStats": lines,
        "bundles": [*lines],
        "numBundles": len(lines),
        "numTopics": sum(line.topics for line in broker.lines.values()),
        "loadReportType": "LocalBrokerData",
    }


def _stats(line: _Line) -> dict[str, Any]:
    return {**_halves(line, 1.0), "topics": line.topics}


def _averages(line: _Line) -> Json:
    return {
        "shortTermData": {"maxSamples": 10, "numSamples": 10, **_halves(line, line.short_ratio)},
        "longTermData": {"maxSamples": 1000, "numSamples": 1000, **_halves(line, line.long_ratio)},
        "topics": line.topics,
    }


def _halves(line: _Line, ratio: float) -> dict[str, float]:
    rate, throughput = int(line.msg_rate * ratio), int(line.throughput * ratio)
    return {
        "msgRateIn": float(rate // 2),
        "msgRateOut": float(rate - rate // 2),
        "msgThroughputIn": float(throughput // 2),
        "msgThroughputOut": float(throughput - throughput // 2),
    }
