"""Conversion between text and value, by the type of the field; durations in seconds."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Protocol, Self, get_args, get_origin, runtime_checkable

from broker_ctl.core.model.counting import Catalog
from broker_ctl.errors import InvalidName, SettingsError
from broker_ctl.settings.schema import Setting

# Conversion between text and value, by the type of the field.


# Pulsar reads integers into Java's int.
_HIGHEST_INTEGER: Final = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SWITCH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How the text of one setting is parsed.

    Attributes:
        allowed: texts that ``parse`` accepts, in words.
        parse: returns the value; raises ValueError, with or without a detail.
    """

    allowed: str
    parse: Callable[[str], object]


@runtime_checkable
class Parsed(Protocol):
    """A type with its own parser, whose ``str`` writes the text."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text; raises ValueError or InvalidName, saying what is wrong."""
        ...


def kind_of(hint: object, setting: Setting) -> ValueKind:
    """How the text of a field with this annotation is parsed.

    Raises:
        TypeError: no setting can have such a type.
    """
    if isinstance(hint, UnionType):
        # An empty text unsets an optional setting, and is never parsed.
        return kind_of(next(item for item in get_args(hint) if item is not NoneType), setting)
    if get_origin(hint) is tuple:
        item = kind_of(get_args(hint)[0], setting)
        return _list_of(item) if setting.catalog is None else _some_of(item)
    if not isinstance(hint, type):
        raise TypeError(f"{setting.key}: no way to read {hint}")
    return _single(hint, setting)


def _single(hint: type, setting: Setting) -> ValueKind:
    if setting.catalog is not None:
        return _named(setting.catalog, setting.allowed)
    if hint is bool:
        return ValueKind("true or false", _parse_switch)
    if hint in {int, float}:
        return _number(setting, is_integer=hint is int)
    if issubclass(hint, StrEnum):
        return ValueKind(one_of(hint), partial(_parse_choice, hint))
    if issubclass(hint, str | Path):
        return _text(hint, setting)
    if issubclass(hint, Parsed):
        return _parsed(hint, setting)
    raise TypeError(f"{setting.key}: no way to read {hint}")


def write(value: object) -> str:
    """The text that parses as ``value``; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, tuple):
        return ",".join(write(item) for item in value)
    return str(value)


def one_of(choices: Iterable[str]) -> str:
    """The choices in words: ``a, b or c``."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _parse_switch(text: str) -> bool:
    try:
        return _SWITCH[text.lower()]
    except KeyError:
        raise ValueError from None


def _parse_choice(choices: type[StrEnum], text: str) -> StrEnum:
    for choice in choices:
        if choice.value.casefold() == text.casefold():
            return choice
    raise ValueError


def _number(setting: Setting, *, is_integer: bool) -> ValueKind:
    above, below, at_most = setting.above, setting.below, setting.at_most
    at_least = 0.0 if setting.at_least is None and above is None else setting.at_least

    def parse(text: str) -> object:
        if not (_INTEGER if is_integer else _NUMBER).fullmatch(text):
            raise ValueError
        value = int(text) if is_integer else float(text)
        if is_integer and value > _HIGHEST_INTEGER:
            raise ValueError(f"above {_HIGHEST_INTEGER}")
        is_inside = (
            math.isfinite(value)
            and (at_least is None or value >= at_least)
            and (at_most is None or value <= at_most)
            and (above is None or value > above)
            and (below is None or value < below)
        )
        if not is_inside:
            raise ValueError
        return value

    noun = "an integer" if is_integer else "a number"
    if at_least is not None and at_most is not None:
        return ValueKind(f"{noun} from {at_least:.10g} to {at_most:.10g}", parse)
    low = f"of at least {at_least:.10g}" if at_least is not None else f"above {above:.10g}"
    ends = [
        *([f"at most {at_most:.10g}"] if at_most is not None else []),
        *([f"below {below:.10g}"] if below is not None else []),
    ]
    return ValueKind(" and ".join([f"{noun} {low}", *ends]), parse)


def _named(catalog: Catalog[Any], allowed: str) -> ValueKind:
    def parse(text: str) -> object:
        if not catalog.knows(text):
            raise ValueError
        try:
            catalog.find(text)
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return catalog.short(text)

    return ValueKind(allowed or one_of(catalog.entries), parse)


def _text(kind: type[str | Path], setting: Setting) -> ValueKind:
    def parse(text: str) -> object:
        if setting.matches and not re.fullmatch(setting.matches, text, re.ASCII):
            raise ValueError
        if setting.check is not None:
            setting.check(text)
        return kind(text)

    return ValueKind(setting.allowed or ("a path" if kind is Path else "any printable text"), parse)


def _parsed(kind: type[Parsed], setting: Setting) -> ValueKind:
    def parse(text: str) -> object:
        try:
            return kind.parse(text)
        except InvalidName as error:
            raise ValueError(str(error)) from error

    return ValueKind(setting.allowed, parse)


def _list_of(item: ValueKind) -> ValueKind:
    def parse(text: str) -> object:
        return tuple(item.parse(part.strip()) for part in text.split(",") if part.strip())

    return ValueKind(f"a comma-separated list; each {item.allowed}", parse)


def _some_of(item: ValueKind) -> ValueKind:
    """A list with at least one item."""
    several = _list_of(item)

    def parse(text: str) -> object:
        names = several.parse(text)
        if not names:
            raise ValueError("names nothing")
        return names

    return ValueKind(several.allowed, parse)


# Durations in seconds, derived from settings in any unit.


_SECONDS: Final = {"ms": (1, 1000), "minutes": (60, 1)}


class InSeconds:
    """The value of another field in seconds: ``poll_s = InSeconds("poll_ms")``."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._factor, self._divisor = _SECONDS[field.rpartition("_")[2]]

    def __get__(self, settings: object, owner: type) -> float:
        value: float = getattr(settings, self._field)
        return value * self._factor / self._divisor
