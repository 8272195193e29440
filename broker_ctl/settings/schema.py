"""How a setting is declared; entries and problems as values.

A subject is a frozen dataclass; each field is declared once, in full::

    session_timeout_ms: Annotated[int, Setting("metadataStoreSessionTimeoutMillis", "...")] = 30_000

The annotation declares how the text is parsed; the suffix of the field's name is the unit.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Self

from broker_ctl.core.model.counting import Catalog
from broker_ctl.settings.conditions import Condition

DEFAULT_ORIGIN: Final = "default"
DYNAMIC_ORIGIN: Final = "dynamic"

# Longest suffix first: `_mib_per_s` ends in `_s`, too.
_UNITS: Final = (
    ("_bytes_per_s", "bytes/s"),
    ("_kib_per_s", "KiB/s"),
    ("_mib_per_s", "MiB/s"),
    ("_msg_per_s", "msg/s"),
    ("_req_per_s", "requests/s"),
    ("_bundles_per_s", "bundles/s"),
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
    """The unit in a field's name; empty for counts, texts and switches."""
    return next((unit for suffix, unit in _UNITS if field_name.endswith(suffix)), "")


class Guard(Enum):
    """How a file that decides who is believed is judged.

    Nobody but root and the daemon's user may write either; a warning says who can read a secret.
    """

    SECRET = auto()
    TRUST = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """The part of a declaration that the field's type, name and default do not say.

    Attributes:
        key: key in broker.conf; Pulsar's own if the meaning is the same.
        sentence: description of the setting.
        at_least, at_most: range of a number, inclusive; an integer is limited to Java's int.
        above, below: the same, exclusive.
        matches: regular expression for the whole text, or for each item of a list.
        check: raises ValueError, with the reason, for a text that matches and is wrong; for each
            item of a list.
        allowed: the texts that match, in words.
        catalog: strategies that the text may name.
        is_dynamic: whether ``/admin/configuration`` may change it at run time.
        used_with: conditions that must all hold; otherwise the setting has no effect.
        instead: keys that strategy balance reads in its place.
        is_off_when_empty: whether an empty text means None or an empty list, as in Pulsar, not the
            default.
        guard: of the file that it names, if that decides who is believed.
        files: with ``guard``, the files of the directory that it names; none: it names a file.
    """

    key: str
    sentence: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    matches: str = ""
    check: Callable[[str], None] | None = None
    allowed: str = ""
    catalog: Catalog[Any] | None = None
    is_dynamic: bool = False
    is_off_when_empty: bool = False
    used_with: tuple[Condition, ...] = ()
    instead: tuple[str, ...] = ()
    guard: Guard | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its text, as written in a source.

    Attributes:
        origin: ``file:line``, ``environment``, ``--set`` or ``dynamic``.
    """

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a setting; ``value`` is empty if it must not be shown."""

    origin: str
    key: str
    value: str
    message: str

    @classmethod
    def of(cls, entry: Entry, message: str) -> Self:
        """A problem with the text of an entry; hides a password in a URL."""
        hidden = "//***@"
        value = _USER_INFO.sub(hidden, entry.value)
        return cls(entry.origin, entry.key, value, _USER_INFO.sub(hidden, message))

    def __str__(self) -> str:
        setting = f"{self.key}={self.value}" if self.value else self.key
        return ": ".join(part for part in (self.origin, setting, self.message) if part)
