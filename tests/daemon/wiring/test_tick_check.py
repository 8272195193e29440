"""The tick that is set against what the servers grant."""

import logging

import pytest

from broker_ctl.daemon.wiring.stores import TickCheck
from broker_ctl.errors import StartError
from broker_ctl.settings.sources import load


def check(*overrides: str) -> TickCheck:
    return TickCheck(load(None, {}, ["metadataStoreUrl=h", *overrides]))


def test_two_ticks_are_what_servers_grant_at_least(caplog: pytest.LogCaptureFixture) -> None:
    check().compare((4.0, 4.0))
    check("zookeeperTickTimeMillis=500").compare((1.0,))
    # Nobody answered.
    check().compare(())
    assert caplog.records == []


def test_one_server_with_longer_ticks_is_refused_and_both_ways_out_are_named() -> None:
    with pytest.raises(StartError) as met:
        check().compare((4.0, 6.0, 4.0))
    assert "at least 6000 ms to a session, but 4000 ms are expected" in str(met.value)
    assert "tickTime (3000, unless minSessionTimeout is set there)" in str(met.value)
    assert "zookeeperMinSessionTimeoutMillis" in str(met.value)


def test_a_minimum_that_is_set_on_the_servers_can_be_configured() -> None:
    override = "zookeeperMinSessionTimeoutMillis=6000"
    check(override).compare((6.0,))
    with pytest.raises(StartError, match="7000 ms to a session, but 6000 ms are expected"):
        check(override).compare((7.0,))


def test_shorter_ticks_are_a_warning_for_they_make_nothing_unsafe(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("broker_ctl"), "propagate", True)
    check().compare((1.0,))
    assert "at least 1000 ms to a session" in caplog.text


def test_without_a_lease_longer_ones_are_a_warning_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("broker_ctl"), "propagate", True)
    check("ownershipAuthority=pulsar56").compare((6.0,))
    assert "at least 6000 ms to a session" in caplog.text
