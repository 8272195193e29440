"""How a setting is declared, and what its text and its faults are as values.

A subject is a frozen dataclass; each field is declared once, in full::

    session_timeout_ms: Annotated[int, Setting("metadataStoreSessionTimeoutMillis", "...")] = 30_000

The annotation says how the text is read, the end of the field's name is the unit.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.core.model.catalog import Catalog
from broker_ctl.settings.conditions import Condition

DEFAULT_ORIGIN: Final = "default"
DYNAMIC_ORIGIN: Final = "dynamic"

# Longest suffix first: `_mib_per_s` ends in `_s`, too.
_UNITS: Final = (
    ("_mib_per_s", "MiB/s"),
    ("_msg_per_s", "msg/s"),
    ("_minutes", "minutes"),
    ("_percent", "%"),
    ("_bytes", "bytes"),
    ("_gbps", "Gbit/s"),
    ("_kib", "KiB"),
    ("_ms", "ms"),
    ("_s", "s"),
)
_USER_INFO = re.compile(r"//[^/@\s]*@")


def unit_of(field_name: str) -> str:
    """The unit in which a field's name ends; empty for counts, texts and switches."""
    return next((unit for suffix, unit in _UNITS if field_name.endswith(suffix)), "")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the field's own type, name and default do not say.

    Attributes:
        key: name in broker.conf; Pulsar's own where the meaning is the same.
        sentence: what it does.
        at_least, at_most: range of a number, both ends included; an integer has Java's upper end.
        above, below: the same, ends excluded.
        matches: regular expression for the whole text, or for each item of a list.
        allowed: what ``matches`` wants, in words.
        catalog: the strategies that a text may name.
        is_dynamic: may be changed at run time through ``/admin/configuration``.
        used_with: all must hold for it to be read at all; where one does not, it has no effect.
        instead: keys that do under strategy balance what this one does under its own.
        is_off_when_empty: an empty text means None, as Pulsar has it, and not the default.
    """

    key: str
    sentence: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    matches: str = ""
    allowed: str = ""
    catalog: Catalog[Any] | None = None
    is_dynamic: bool = False
    is_off_when_empty: bool = False
    used_with: tuple[Condition, ...] = ()
    instead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its text as somebody gave it.

    Attributes:
        origin: ``file:line``, ``environment``, ``--set`` or ``dynamic``.
    """

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a setting; ``value`` is empty where it must not be shown."""

    origin: str
    key: str
    value: str
    message: str

    @classmethod
    def of(cls, entry: Entry, message: str) -> Self:
        """A problem with the text of an entry; a password inside a URL is not repeated."""
        hidden = "//***@"
        value = _USER_INFO.sub(hidden, entry.value)
        return cls(entry.origin, entry.key, value, _USER_INFO.sub(hidden, message))

    def __str__(self) -> str:
        setting = f"{self.key}={self.value}" if self.value else self.key
        return ": ".join(part for part in (self.origin, setting, self.message) if part)
