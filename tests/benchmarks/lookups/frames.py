"""Pulsar's binary protocol as bytes, as far as a lookup needs it (docs: pulsar-binary-lookup).

Written by hand from the layout, so that what is measured is not asked by its own code.
"""

import struct
from typing import Final

CONNECT: Final = 2
CONNECTED: Final = 3
PING: Final = 18
PONG: Final = 19
LOOKUP: Final = 23
LOOKUP_RESPONSE: Final = 24

_TYPE: Final = 1
_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_PREFIX: Final = struct.Struct(">I")
_PROTOCOL_VERSION: Final = 21

Fields = dict[int, int | bytes]


def connect(token: str = "") -> bytes:
    """The first frame of a client."""
    shown = _field(3, token.encode()) if token else b""
    method = _field(5, b"token") if token else b""
    version = _field(1, b"benchmark") + shown + _field(4, _PROTOCOL_VERSION) + method
    return _frame(CONNECT, version)


def lookup(topic: str, request_id: int) -> bytes:
    """Ask for the owner of a topic."""
    return _frame(LOOKUP, _field(1, topic.encode()) + _field(2, request_id))


def pong() -> bytes:
    """Still there."""
    return _frame(PONG, b"")


def cut(data: bytes) -> tuple[list[Fields], bytes]:
    """The commands of all whole frames, and what is left."""
    found: list[Fields] = []
    at = 0
    while len(data) - at >= 8:
        end = at + 4 + _PREFIX.unpack_from(data, at)[0]
        if len(data) < end:
            break
        size = _PREFIX.unpack_from(data, at + 4)[0]
        found.append(fields(data[at + 8 : at + 8 + size]))
        at = end
    return found, data[at:]


def type_of(command: Fields) -> int:
    """Which command it is."""
    kind = command[_TYPE]
    assert isinstance(kind, int)
    return kind


def body_of(command: Fields) -> Fields:
    """The message of the command, which stands in the field of its type's number."""
    body = command[type_of(command)]
    assert isinstance(body, bytes)
    return fields(body)


def fields(message: bytes) -> Fields:
    """Values of a message by the numbers of its fields; of several, the last."""
    found: Fields = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        number, kind = divmod(tag, 8)
        if kind == _VARINT:
            found[number] = value
        else:
            assert kind == _LENGTH_DELIMITED, message
            found[number] = message[at : at + value]
            at += value
    return found


def _frame(kind: int, body: bytes) -> bytes:
    command = _field(_TYPE, kind) + _field(kind, body)
    return _PREFIX.pack(4 + len(command)) + _PREFIX.pack(len(command)) + command


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value, shift = value & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + 1
