"""Scrapes share one rendering a second, whatever their number and formats."""

import aiohttp
import pytest

from broker_ctl.api.metrics import exposition
from tests.support.clusters.fake_services import BUNDLES, Broker
from tests.support.time.waiting import eventually

TEXT = "text/plain; version=0.0.4"
OWNED = 'broker_ctl_owned_bundles{cluster="c1",state="owned"}'
FORMATS = (
    "",
    TEXT,
    "text/plain; version=1.0.0; escaping=allow-utf-8",
    "application/openmetrics-text; version=1.0.0",
    "application/openmetrics-text; version=1.0.1; escaping=dots",
    "application/openmetrics-text; version=x",
)


async def owned(broker: Broker, accept: str = TEXT) -> float:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{broker.url}/metrics", headers={"Accept": accept}) as reply,
    ):
        assert reply.status == 200
        lines = (await reply.text()).splitlines()
    return float(next(line.removeprefix(OWNED) for line in lines if line.startswith(OWNED)))


async def test_scrapes_of_all_formats_show_values_of_at_most_two_readings_a_second(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "_MAX_AGE_S", 3600.0)
    for accept in FORMATS:
        assert await owned(leader, accept) == 0
    leader.world.assign(BUNDLES[0], leader.broker_id)
    for accept in FORMATS:
        assert await owned(leader, accept) == 0


async def test_a_later_scrape_shows_new_values(leader: Broker) -> None:
    assert await owned(leader) == 0
    leader.world.assign(BUNDLES[0], leader.broker_id)

    async def is_new() -> bool:
        return await owned(leader) == 1

    await eventually(is_new)
