"""What config check says to have an effect beside a Pulsar cluster is read there."""

import dataclasses
import random
from typing import Any

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.sources import load
from tests.support.clusters.attached import attached_run
from tests.support.clusters.foreign_cluster import foreign_cluster
from tests.support.time.waiting import eventually

GIVEN = ["metadataStoreUrl=h", "dataPlane=pulsar", "pulsarAdminUrl=http://h"]
# By `daemon.start`, before there is a daemon.
READ_AT_THE_START = {
    "acceptIgnoredSecuritySettings",
    "allowOpenMetadataStore",
    "logFormat",
    "logLevel",
}


def follow_reads(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> set[tuple[str, str]]:
    """Subject and name of each setting that is looked at from now on."""
    read: set[tuple[str, str]] = set()
    for field in dataclasses.fields(settings):
        subject = type(getattr(settings, field.name))
        if not dataclasses.is_dataclass(subject):
            continue
        plain = subject.__getattribute__

        def look(self: Any, name: str, subject: str = field.name, plain: Any = plain) -> Any:
            read.add((subject, name))
            return plain(self, name)

        monkeypatch.setattr(subject, "__getattribute__", look)
    return read


async def test_each_key_that_is_said_to_have_an_effect_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = load(None, {}, GIVEN)
    said = {key: one for key, one in DECLARATIONS.items() if is_used(settings, key)}
    read = follow_reads(monkeypatch, settings)

    def built(*arguments: Any) -> Any:
        # Before it, a configuration was parsed and judged: that looks at all of them.
        read.clear()
        return Foundation(*arguments)

    monkeypatch.setattr("broker_ctl.attach.attached.Foundation", built)
    async with foreign_cluster() as cluster, attached_run(cluster) as run:
        Environment(SystemClock(), random.Random(1)).open_stores(settings, StoreInstruments())
        await eventually(lambda: run.is_leading)
    unread = {key for key, one in said.items() if (one.subject, one.name) not in read}
    assert unread == READ_AT_THE_START
