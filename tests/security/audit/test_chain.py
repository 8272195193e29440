"""The hash chain: what is changed, removed, inserted or exchanged is found, at its line."""

from typing import Any

import pytest

from broker_ctl.codec import decode_object, encode_sorted
from broker_ctl.security.audit.event import (
    MAX_TEXT_LENGTH,
    MAX_VALUE_BYTES,
    AuditEvent,
    BrokenChain,
    ChainLink,
    EventKind,
    request_id_of,
    summarise,
    verify,
)


def chain(events: int, end: ChainLink | None = None) -> list[bytes]:
    lines, link = [], end or ChainLink()
    for number in range(events):
        line, link = link.append({"kind": "change", "at_ms": number, "target": f"/t/{number}"})
        lines.append(line)
    return lines


def changed(line: bytes, **values: Any) -> bytes:
    return encode_sorted({**decode_object(line), **values}) + b"\n"


def test_a_value_that_is_not_json_is_recorded_as_text() -> None:
    assert summarise({"partitions": 1 << 80}) == f"{{'partitions': {1 << 80}}}"
    assert summarise({1: "x"}) == "{1: 'x'}"
    assert len(summarise({"n": 10**4000})) == MAX_TEXT_LENGTH
    assert summarise({"n": 10**5000}) == "a number with too many digits"


def test_a_chain_is_intact_also_from_its_middle_on() -> None:
    lines = chain(5)
    found = verify(lines)
    assert (found.first, found.lines, found.end.sequence) == (1, 5, 5)
    assert verify(lines[2:]).first == 3


@pytest.mark.parametrize(
    ("name", "attack", "number"),
    [
        ("changed", lambda lines: [lines[0], changed(lines[1], target="/x"), *lines[2:]], 2),
        ("removed", lambda lines: [*lines[:1], *lines[2:]], 2),
        ("doubled", lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        ("exchanged", lambda lines: [lines[1], lines[0], *lines[2:]], 2),
        ("forged at the end", lambda lines: [*lines, *chain(1, ChainLink(5, "f" * 64))], 6),
        ("another start", lambda _: chain(1, ChainLink(0, "f" * 64)), 1),
        ("two keys", lambda lines: [lines[0].replace(b'{"at_ms"', b'{"at_ms":7,"at_ms"')], 1),
        ("cut", lambda lines: [*lines[:4], lines[4][:-1]], 5),
        ("not JSON", lambda lines: [lines[0], b"hello\n"], 2),
        ("not an object", lambda lines: [lines[0], b"[]\n"], 2),
        ("newer", lambda lines: [changed(lines[0], format=2)], 1),
        ("a hash of another type", lambda lines: [changed(lines[0], previous=0)], 1),
        ("too long", lambda _: [b'"' + b"x" * 40_000 + b'"\n'], 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_attack_on_the_chain_is_found_at_its_line(name: str, attack: Any, number: int) -> None:
    with pytest.raises(BrokenChain) as met:
        verify(attack(chain(5)))
    assert met.value.number == number, name


def test_a_line_whose_hash_is_computed_again_breaks_the_next_one() -> None:
    lines = chain(3)
    lines[1] = ChainLink(1, decode_object(lines[0])["hash"]).append({"kind": "change", "at_ms": 9})[
        0
    ]
    with pytest.raises(BrokenChain, match="names another hash") as met:
        verify(lines)
    assert met.value.number == 3


def test_a_missing_end_shows_against_a_hash_that_is_kept_elsewhere() -> None:
    lines = chain(5)
    kept = verify(lines).end.hash
    assert verify(lines + chain(2, verify(lines).end), kept).has_expected
    assert not verify(lines[:4], kept).has_expected
    # Written again as a whole, with other contents.
    assert not verify(chain(5, ChainLink().append({"kind": "x", "at_ms": 0})[1]), kept).has_expected


def test_texts_of_strangers_are_bounded_and_stay_on_one_line() -> None:
    hostile = "a\n\x1b[31m\udcff" + "x" * 100_000
    names = ("request_id", "principal", "proof", "original_principal", "address", "operation")
    texts: dict[str, Any] = dict.fromkeys((*names, "route", "target", "status", "reason"), hostile)
    large = summarise({"key": "\x00" * MAX_VALUE_BYTES})
    event = AuditEvent(kind=EventKind.CHANGE, at_ms=1, before=large, after=large, **texts)
    line, end = ChainLink().append(event.row())
    assert line.count(b"\n") == 1
    assert verify([line]).end == end


def test_a_large_value_is_reported_by_its_hash() -> None:
    assert summarise({"a": 1}) == {"a": 1}
    found = summarise(["x" * MAX_VALUE_BYTES])
    assert found["size_bytes"] == MAX_VALUE_BYTES + 4
    assert len(found["sha256"]) == 64


@pytest.mark.parametrize("given", ["abc-1.2:3/4", "x" * 64])
def test_a_plain_request_id_is_kept(given: str) -> None:
    assert request_id_of(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "a\nb", "é", "<x>", '"'])
def test_any_other_request_id_is_replaced(given: str | None) -> None:
    first, second = request_id_of(given), request_id_of(given)
    assert first != second
    assert first.isalnum()
