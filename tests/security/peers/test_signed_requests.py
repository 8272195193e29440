"""What a captured request of a broker is good for: nothing, at any broker."""

import secrets
from collections.abc import Mapping

import pytest

from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import (
    HEADER,
    MAX_AHEAD_MS,
    MAX_SKEW_MS,
    NonceMemory,
    Refusal,
    RequestSigner,
    RequestVerifier,
    SignatureRefused,
    StartWanted,
)

KEYS = ClusterKeys.of([bytes(range(32))])
NOW_MS = 1_800_000_000_000
PATH, BODY = "/control/v1/acquire?x=%20", b'{"epoch":1}'


def signed(
    target: str = "b-2:8080", keys: ClusterKeys = KEYS, now_ms: int = NOW_MS, start: str = ""
) -> str:
    header = RequestSigner(keys, "b-1:8080").sign(target, "POST", PATH, BODY, now_ms, start=start)
    assert set(header) == {HEADER}
    return header[HEADER]


@pytest.fixture
def verifier() -> RequestVerifier:
    return RequestVerifier(KEYS, "b-2:8080", NOW_MS - 10 * MAX_SKEW_MS)


def test_a_request_is_accepted_once(verifier: RequestVerifier) -> None:
    header = signed()
    found = verifier.verify(header, "POST", PATH, NOW_MS)
    assert (found.source, found.target) == ("b-1:8080", "b-2:8080")
    assert found.covers(BODY)
    assert not found.covers(BODY + b" ")
    with pytest.raises(SignatureRefused, match="repeats"):
        verifier.verify(header, "POST", PATH, NOW_MS)
    verifier.verify(signed(), "POST", PATH, NOW_MS)


def test_a_request_is_remembered_for_as_long_as_it_is_valid(verifier: RequestVerifier) -> None:
    header = signed(now_ms=NOW_MS + MAX_AHEAD_MS)
    verifier.verify(header, "POST", PATH, NOW_MS)
    valid_ms = MAX_AHEAD_MS + MAX_SKEW_MS
    for later_ms in range(0, valid_ms + 1, MAX_SKEW_MS // 4):
        verifier.verify(signed(now_ms=NOW_MS + later_ms), "POST", PATH, NOW_MS + later_ms)
        with pytest.raises(SignatureRefused, match="repeats"):
            verifier.verify(header, "POST", PATH, NOW_MS + later_ms)
    with pytest.raises(SignatureRefused, match="60 s are allowed"):
        verifier.verify(header, "POST", PATH, NOW_MS + valid_ms + 1)


@pytest.mark.parametrize(
    ("header", "method", "path", "says"),
    [
        (signed("b-3:8080"), "POST", PATH, "signed for 'b-3:8080'"),
        (signed(), "PUT", PATH, "not of a key"),
        (signed(), "POST", "/control/v1/acquire", "not of a key"),
        (signed(keys=ClusterKeys.of([b"x" * 32])), "POST", PATH, "not of a key"),
        (signed().replace("b-1", "b-9"), "POST", PATH, "not of a key"),
        (signed().replace("b-1", "b-\udcd9"), "POST", PATH, "not of a key"),
        (signed().replace(f" {NOW_MS} ", f" {NOW_MS + 1} "), "POST", PATH, "not of a key"),
        (signed(now_ms=NOW_MS - MAX_SKEW_MS - 1), "POST", PATH, "60 s are allowed"),
        (signed(now_ms=NOW_MS + MAX_AHEAD_MS + 1), "POST", PATH, "60 s are allowed"),
        ("", "POST", PATH, "malformed"),
        ("1 2 3 4 5 6 7", "POST", PATH, "malformed"),
        (signed().replace("1 ", "2 ", 1), "POST", PATH, "unknown version"),
        (signed()[:-1] + "\udcff", "POST", PATH, "base64"),
        (signed() + "A" * 3000, "POST", PATH, "malformed"),
    ],
    ids=range(14),
)
def test_another_request_is_refused(
    verifier: RequestVerifier, header: str, method: str, path: str, says: str
) -> None:
    with pytest.raises(SignatureRefused, match=says) as refused:
        verifier.verify(header, method, path, NOW_MS)
    kinds = {
        "signed for": Refusal.OTHER_TARGET,
        "not of": Refusal.UNKNOWN_KEY,
        "60 s": Refusal.TIME,
    }
    expected = (kind for text, kind in kinds.items() if text in says)
    assert refused.value.kind is next(expected, Refusal.MALFORMED)


def test_a_request_from_before_the_start_is_refused() -> None:
    restarted = RequestVerifier(KEYS, "b-2:8080", NOW_MS + 1)
    with pytest.raises(SignatureRefused, match="before this daemon started"):
        restarted.verify(signed(), "POST", PATH, NOW_MS + 2)


@pytest.mark.parametrize("ahead_ms", [0, 1, MAX_AHEAD_MS // 2, MAX_AHEAD_MS])
def test_what_was_seen_before_a_restart_counts_never_again(ahead_ms: int) -> None:
    """Also where the clock of the sender is ahead, whenever it is tried."""
    header = signed(now_ms=NOW_MS + ahead_ms)
    RequestVerifier(KEYS, "b-2:8080", NOW_MS - MAX_AHEAD_MS - 1).verify(
        header, "POST", PATH, NOW_MS
    )
    restarted = RequestVerifier(KEYS, "b-2:8080", NOW_MS + 1)
    for now_ms in range(NOW_MS + 2, NOW_MS + 2 * MAX_SKEW_MS, 1_000):
        with pytest.raises(SignatureRefused):
            restarted.verify(header, "POST", PATH, now_ms)


def test_a_request_after_a_restart_is_signed_for_this_start_and_counts_once() -> None:
    restarted = RequestVerifier(KEYS, "b-2:8080", NOW_MS)
    with pytest.raises(StartWanted) as wanted:
        restarted.verify(signed(now_ms=NOW_MS + 1), "POST", PATH, NOW_MS + 1)
    header = signed(now_ms=NOW_MS + 2, start=wanted.value.start)
    assert restarted.verify(header, "POST", PATH, NOW_MS + 2).covers(BODY)
    with pytest.raises(SignatureRefused, match="repeats"):
        restarted.verify(header, "POST", PATH, NOW_MS + 3)
    again = RequestVerifier(KEYS, "b-2:8080", NOW_MS + 4)
    with pytest.raises(SignatureRefused, match="another start"):
        again.verify(header, "POST", PATH, NOW_MS + 5)
    forged = header.replace(wanted.value.start, "0" * 32)
    with pytest.raises(SignatureRefused, match="not of a key"):
        restarted.verify(forged, "POST", PATH, NOW_MS + 3)
    # Once no clock can have been so far ahead, one way is enough.
    later_ms = NOW_MS + MAX_AHEAD_MS + 1
    restarted.verify(signed(now_ms=later_ms), "POST", PATH, later_ms)


def test_the_memory_is_bounded_and_refuses_rather_than_forgets() -> None:
    memory = NonceMemory(most=2)
    for nonce in ("a", "b"):
        memory.admit(nonce, NOW_MS)
    with pytest.raises(SignatureRefused, match="too many"):
        memory.admit("c", NOW_MS)
    memory.admit("c", NOW_MS + 2 * MAX_SKEW_MS)


def test_a_broker_id_forges_no_field() -> None:
    keys: Mapping[str, str] = RequestSigner(KEYS, "a b\n\r%").sign(
        f"t {secrets.token_hex(2)}\n", "GET", "/", b"", NOW_MS
    )
    assert len(keys[HEADER].split(" ")) == 7
    assert keys[HEADER].isprintable()
