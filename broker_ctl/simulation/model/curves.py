"""Traffic of one topic as a function of time: plain values."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.model.load import BundleStats


@dataclass(frozen=True, slots=True)
class TopicRates:
    """Traffic of one topic at one moment: messages and bytes a second, open clients."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    producers: int = 0
    consumers: int = 0

    @property
    def is_any(self) -> bool:
        """Whether a message passes at all."""
        return self.msg_rate_in > 0 or self.msg_rate_out > 0

    @property
    def stats(self) -> BundleStats:
        """What this topic adds to its bundle."""
        return BundleStats(
            self.msg_rate_in,
            self.msg_rate_out,
            self.bytes_in,
            self.bytes_out,
            1,
            self.producers,
            self.consumers,
        )

    def scaled(self, factor: float) -> "TopicRates":
        """The same clients at ``factor`` times the rates."""
        return TopicRates(
            self.msg_rate_in * factor,
            self.msg_rate_out * factor,
            self.bytes_in * factor,
            self.bytes_out * factor,
            self.producers,
            self.consumers,
        )


class Curve(Protocol):
    """Traffic over time."""

    def at(self, t_s: float) -> TopicRates:
        """The traffic ``t_s`` seconds after the start."""
        ...


@dataclass(frozen=True, slots=True)
class Wave:
    """``base`` that swings by ``amplitude`` (a fraction below 1) once in ``period_s``."""

    base: TopicRates
    amplitude: float = 0.0
    period_s: float = 1.0
    phase_s: float = 0.0

    def at(self, t_s: float) -> TopicRates:
        """The traffic ``t_s`` seconds after the start."""
        if self.amplitude == 0:
            return self.base
        turn = 2 * math.pi * (t_s + self.phase_s) / self.period_s
        return self.base.scaled(1 + self.amplitude * math.sin(turn))


@dataclass(frozen=True, slots=True)
class Steps:
    """``levels[i]`` from ``starts_s[i]`` on; nothing before the first, the last one for ever."""

    starts_s: tuple[float, ...]
    levels: tuple[TopicRates, ...]

    def at(self, t_s: float) -> TopicRates:
        """The traffic ``t_s`` seconds after the start."""
        index = bisect_right(self.starts_s, t_s) - 1
        return self.levels[index] if index >= 0 else TopicRates()
