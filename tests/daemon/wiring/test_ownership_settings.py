"""A daemon's settings of ownership reach the parts that use them."""

import random

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load


def settings_with(*texts: str) -> Settings:
    return load(None, {}, ["metadataStoreUrl=zk:127.0.0.1:1", *texts])


def built(settings: Settings) -> Assembly:
    return Assembly(settings, Environment(SystemClock(), random.Random(1)))


@pytest.mark.parametrize(
    ("texts", "grace_s"),
    [
        ((), 3.0),
        (("brokerReclaimGraceMillis=4500",), 4.5),
        (("brokerReclaimGraceMillis=0", "metadataStoreSessionTimeoutMillis=60000"), 6.0),
        # No shorter than the least period of a heartbeat, a tick and a quarter of a second.
        (("brokerReclaimGraceMillis=0", "metadataStoreSessionTimeoutMillis=20000"), 2.25),
    ],
)
def test_the_grace_is_what_is_set_and_at_least_a_heartbeat_s_period(
    texts: tuple[str, ...], grace_s: float
) -> None:
    settings = settings_with(*texts)
    assembly = built(settings)
    assert assembly.services.owners._grace_s == pytest.approx(grace_s)
    assert leader_rules(settings).reclaim_grace_s == pytest.approx(grace_s)


@pytest.mark.parametrize("is_set", [True, False])
def test_reclaimed_bundles_are_preloaded_as_configured(*, is_set: bool) -> None:
    settings = settings_with(f"brokerReclaimLoadImmediately={str(is_set).lower()}")
    assert built(settings).services.ownership._dependencies.is_preloading is is_set


def test_ownership_counts_into_the_instruments_of_the_daemon() -> None:
    assembly = built(settings_with())
    counted = assembly.foundation.instruments.ownership
    assert assembly.services.ownership._dependencies.instruments is counted


def test_policies_and_rings_are_known_to_be_in_one_store_unless_another_is_set() -> None:
    # A namespace is deleted in one transaction then.
    together = built(settings_with()).services.namespaces
    assert together._configuration_store is together._store
    other = settings_with("configurationMetadataStoreUrl=zk:127.0.0.1:2")
    apart = built(other).services.namespaces
    assert apart._configuration_store is not apart._store
