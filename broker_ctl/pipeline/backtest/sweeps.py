"""Sweeps of settings: all combinations of values, or random points of ranges.

A *point* is one combination: ``key=value`` of each key, in the order of the keys.
"""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

from broker_ctl.errors import SettingsError

Point = tuple[str, ...]

MOST_POINTS: Final = 10_000
_COMMA: Final = re.compile(r"(?<!\\),")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
# Digits of a drawn number, as an operator would write them into a broker.conf.
_DIGITS: Final = 4
# Number of repeated draws after which the ranges count as exhausted.
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class SweepValues:
    """A key and its values."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepSpan:
    """A key and the range of its values; whole numbers if both ends are."""

    key: str
    low: str
    high: str

    @property
    def values(self) -> tuple[str, ...]:
        """Its ends."""
        return self.low, self.high


Dimension = SweepValues | SweepSpan


def dimension(text: str) -> Dimension:
    r"""Read ``KEY=V1,V2`` or ``KEY=LOW..HIGH``; a comma that belongs to a value is ``\,``.

    Raises:
        SettingsError: another shape.
    """
    key, equals, rest = (part.strip() for part in text.partition("="))
    values = tuple(part.strip().replace("\\,", ",") for part in _COMMA.split(rest))
    if not equals or not key or not all(values):
        raise SettingsError(f"{text!r}: KEY=VALUE,VALUE or KEY=LOW..HIGH is expected")
    if any(" " in value for value in values):
        raise SettingsError(f"{text!r}: a blank within a value")
    low, dots, high = values[0].partition("..")
    if len(values) > 1 or not dots:
        return SweepValues(key, tuple(dict.fromkeys(values)))
    if not _number(low) < _number(high):
        raise SettingsError(f"{text!r}: a range is two numbers, the lower one first")
    return SweepSpan(key, low, high)


def grid(dimensions: Sequence[Dimension]) -> list[Point]:
    """Every combination; empty without dimensions.

    Raises:
        SettingsError: a range, which has no list of values; or too many combinations.
    """
    for each in dimensions:
        if isinstance(each, SweepSpan):
            span = f"{each.key}={each.low}..{each.high}"
            raise SettingsError(f"{span}: out of a range values are drawn: say how many points")
    count = math.prod(len(each.values) for each in dimensions)
    if count > MOST_POINTS:
        raise SettingsError(f"{count} combinations of settings; at most {MOST_POINTS}")
    ordered = _in_order(dimensions)
    keys = [each.key for each in ordered]
    combinations = product(*(each.values for each in ordered))
    return [_point(keys, values) for values in combinations if values]


def sample_grid(dimensions: Sequence[Dimension], count: int, seed: int) -> list[Point]:
    """Draw this number of different points; equal arguments give equal points.

    Raises:
        SettingsError: no range, or too few different points.
    """
    ordered = _in_order(dimensions)
    if not ordered:
        raise SettingsError("nothing to draw from: no key has values")
    if count > MOST_POINTS:
        raise SettingsError(f"{count} points; at most {MOST_POINTS}")
    rng = random.Random(seed)  # noqa: S311  a sweep that can be repeated, and no secret
    keys = [each.key for each in ordered]
    points: dict[Point, None] = {}
    vain = 0
    while len(points) < count:
        known = len(points)
        points[_point(keys, tuple(_value(rng, each) for each in ordered))] = None
        vain = vain + 1 if len(points) == known else 0
        if vain == _TRIES:
            raise SettingsError(f"{count} different points; no more than {known} were found")
    return list(points)


def _value(rng: random.Random, dimension: Dimension) -> str:
    if isinstance(dimension, SweepValues):
        return rng.choice(dimension.values)
    low, high = dimension.values
    if _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high):
        return str(rng.randint(int(low), int(high)))
    rounded = float(f"{rng.uniform(float(low), float(high)):.{_DIGITS}g}")
    return f"{min(max(rounded, float(low)), float(high)):.10g}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _in_order(dimensions: Sequence[Dimension]) -> list[Dimension]:
    ordered = sorted(dimensions, key=lambda each: each.key)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise SettingsError(f"{one.key} is given twice")
    return ordered


def _point(keys: Sequence[str], values: Sequence[str]) -> Point:
    return tuple(f"{key}={value}" for key, value in zip(keys, values, strict=True))
