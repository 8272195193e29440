"""Reading a JSON payload that another program wrote.

Whatever does not fit ends as `CorruptRecord`, which names the node and the field. Unknown fields
are ignored, and null is the same as absent: both as Jackson does it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from broker_ctl.codec import decode_object
from broker_ctl.core.model.broker import is_broker_id
from broker_ctl.errors import CorruptRecord, InvalidName, NewerVersion

_T = TypeVar("_T")

FORMAT_VERSION: Final = 1
_VERSION_FIELD: Final = "version"
# Far beyond any broker. Up to here, sums over all bundles of a cluster, and their squares, are
# finite.
_MOST: Final = 1e20
# What is smaller has an inverse beyond that, and is nothing.
_LEAST: Final = 1e-20
# The sum over the lines of a report fits into 64 bits.
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
_MOST_COUNT: Final = 2**48
# Characters of a foreign text in an error.
_MOST_SHOWN: Final = 300


class Fields:
    """One JSON object of a payload, and its place in it."""

    def __init__(self, path: str, values: Mapping[str, Any], prefix: str = "") -> None:
        self.path = path
        self.values = values
        self._prefix = prefix

    @classmethod
    def of(cls, path: str, data: bytes) -> "Fields":
        """The fields of a node's payload.

        Raises:
            CorruptRecord: not a JSON object.
        """
        try:
            return cls(path, decode_object(data))
        except CorruptRecord as error:
            raise CorruptRecord(f"{path}: {error}") from error

    @classmethod
    def of_ours(cls, path: str, data: bytes) -> "Fields":
        """The fields of a node under /broker-ctl.

        Raises:
            CorruptRecord: not a JSON object, or without a version.
            NewerVersion: a newer release wrote it; guessing at it could break what it relies on.
        """
        fields = cls.of(path, data)
        version = fields.integer(_VERSION_FIELD)
        if version > FORMAT_VERSION:
            raise NewerVersion(
                f"{path}: written in format {version} by a newer broker-ctl; "
                f"this one knows format {FORMAT_VERSION}",
            )
        return fields

    def corrupt(self, name: str, complaint: str) -> CorruptRecord:
        """Build the error for a malformed field."""
        return CorruptRecord(f"{self.path}: {self._prefix}{name}: {complaint}")

    def _value(self, name: str, kind: type[_T] | tuple[type[_T], ...], default: _T | None) -> _T:
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.corrupt(name, "missing")
            return default
        # A bool is an int in Python only.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.corrupt(name, f"cannot be a {type(value).__name__}")
        return value

    def broker_id(self, name: str, default: str | None = None) -> str:
        """The id of a broker, ``host:port``; required unless a default is given."""
        found = self.text(name, default)
        if not is_broker_id(found):
            raise self.corrupt(name, f"{found[:_MOST_SHOWN]!r} is not host:port")
        return found

    def listed_broker_id(self, name: str) -> str:
        """As `broker_id`, in a node whose own name is the id of a broker, and the default."""
        listed = self.path.rpartition("/")[2]
        if not is_broker_id(listed):
            raise CorruptRecord(f"{self.path[:_MOST_SHOWN]}: its name is not host:port")
        return self.broker_id(name, listed)

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required unless a default is given."""
        return self._value(name, str, default)

    def optional_text(self, name: str) -> str | None:
        """A string, or None."""
        return self._value(name, str, "") if self.values.get(name) is not None else None

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number; required unless a default is given."""
        return self._value(name, int, default)

    def number(self, name: str) -> float:
        """An amount to calculate with, 0 where it is absent or unknown.

        Java writes a number that is none as a text.
        """
        if self.values.get(name) in _NO_NUMBERS:
            return 0.0
        value = float(self._value(name, (int, float), 0.0))
        if abs(value) > _MOST:
            raise self.corrupt(name, f"{value:g} is too large")
        return value if abs(value) >= _LEAST else 0.0

    def count(self, name: str) -> int:
        """A whole number to calculate with, 0 where it is absent."""
        value = self.integer(name, 0)
        if abs(value) > _MOST_COUNT:
            raise self.corrupt(name, f"{value} is too large")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        return self._value(name, bool, default)

    def child(self, name: str) -> "Fields":
        """An object within, empty where it is absent."""
        return Fields(self.path, self._value(name, dict, {}), f"{self._prefix}{name}.")

    def children(self) -> dict[str, "Fields"]:
        """All values, each of which must be an object."""
        return {name: self.child(name) for name in self.values}

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where it is absent."""
        items = self._value(name, list, [])
        if not all(isinstance(item, str) for item in items):
            raise self.corrupt(name, "must be a list of strings")
        return tuple(items)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers, empty where it is absent."""
        items = self._value(name, list, [])
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise self.corrupt(name, "must be a list of whole numbers")
        return tuple(items)

    def items(self, name: str) -> "tuple[Fields, ...]":
        """A list of objects, empty where it is absent."""
        items = self._value(name, list, [])
        if not all(isinstance(item, dict) for item in items):
            raise self.corrupt(name, "must be a list of objects")
        return tuple(
            Fields(self.path, item, f"{self._prefix}{name}[{number}].")
            for number, item in enumerate(items)
        )

    def parsed(self, name: str, parse: Callable[[str], _T]) -> _T:
        """A required string, read by ``parse``, which raises `InvalidName`."""
        try:
            return parse(self.text(name))
        except InvalidName as error:
            raise self.corrupt(name, str(error)) from error


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is written: Pulsar leaves null fields out."""
    return {name: value for name, value in values.items() if value is not None}


def with_format_version(values: Mapping[str, Any]) -> dict[str, Any]:
    """A payload of ours: with the format's version, without nulls."""
    return {_VERSION_FIELD: FORMAT_VERSION, **without_nulls(values)}
