"""JSON encoding and decoding; the only module that imports orjson."""

from typing import Any

import orjson

from broker_ctl.errors import CorruptRecord


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON of plain values (dict, list, str, int, float, bool, None)."""
    return orjson.dumps(value)


def encode_to_keep(value: Any) -> bytes:
    """As `encode`, for many small values that are kept for a while.

    orjson does not give back the rest of the page into which it has encoded: a copy is as large as
    the value.
    """
    return memoryview(orjson.dumps(value)).tobytes()


def encode_sorted(value: Any) -> bytes:
    """Compact UTF-8 JSON with sorted keys: equal values have equal bytes, as a hash needs."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def wrap_encoded(data: bytes) -> Any:
    """Wrap encoded JSON as a value for `encode`, so that shared parts are encoded once."""
    return orjson.Fragment(data)


def encode_pretty(value: Any) -> bytes:
    """Indented UTF-8 JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def decode(data: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        CorruptRecord: not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CorruptRecord(f"not JSON: {error}") from error


def decode_object(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        CorruptRecord: not a JSON object.
    """
    value = decode(data)
    if not isinstance(value, dict):
        raise CorruptRecord(f"a JSON object was expected, not {type(value).__name__}")
    return value
