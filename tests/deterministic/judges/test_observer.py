"""What the observer says of acts: it must be able to fail, too."""

import pytest

from broker_ctl.dataplane.bundles.bundle_table import RingTokens
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from tests.deterministic.judges.observer import Observer

_NS = 1_000_000_000


def said(*tokens: int) -> list[str]:
    """Of a hash that acts under these tokens, one after the other."""
    observer = Observer(2.0)
    for at_s, token in enumerate(tokens, 1):
        observer.record(ServeEvent(at_s * _NS, f"b{token}", token, (7,)))
    return [one for one in observer.violations if one.startswith("I1b")]


def test_an_old_token_is_refused_and_counted() -> None:
    assert said(1, 3, 2) == []
    observer = Observer(2.0)
    for token in (1, 3, 2):
        observer.record(ServeEvent(_NS, "b", token, (7,)))
    assert observer.refused == 1


def test_a_storage_that_refuses_no_old_token_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RingTokens, "highest", lambda *_: 0)
    assert len(said(1, 3, 2)) == 1


def test_a_storage_that_refuses_the_newest_token_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RingTokens, "highest", lambda *_: 1 << 62)
    assert len(said(1, 3)) == 2
