"""Real daemons beside brokers that move their metadata away; a coordinator is played.

The nodes are those of Pulsar (docs: pulsar-metadata-migration).
"""

import json
from collections.abc import AsyncIterator
from functools import partial

import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.daemon.doctor.ensemble import examine_ensembles
from broker_ctl.daemon.doctor.machine import FindingLevel
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.settings.sources import load
from broker_ctl.store import paths
from broker_ctl.store.interface import CONTAINER_OWNER
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "t")


@pytest.fixture
async def coordinator(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    opened = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await opened.start()
    await opened.wait_connected()
    yield opened
    await opened.close()


async def set_phase(store: ZooKeeperStore, phase: str) -> None:
    data = json.dumps({"phase": phase, "targetUrl": "oxia://oxia:6648/default"}).encode()
    if await store.exists(paths.METADATA_MIGRATION) is None:
        await store.create(paths.METADATA_MIGRATION, data, make_parents=True)
    else:
        await store.set(paths.METADATA_MIGRATION, data)


async def changes(store: ZooKeeperStore) -> dict[str, int]:
    """When each node was changed last, but that of the migration itself.

    Without containers: the server takes an empty one away whenever its timer says so, and what
    a daemon would put into one is found as the child.
    """
    found: dict[str, int] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        stat = await store.exists(path)
        if stat is None:
            continue
        if path != paths.METADATA_MIGRATION and stat.ephemeral_owner != CONTAINER_OWNER:
            found[path] = stat.mzxid
        waiting += [f"{path.rstrip('/')}/{name}" for name in await store.children(path)]
    return found


async def reason(http: HttpClient, daemon: DaemonProcess) -> str:
    """Why it is not ready; empty while it is, or while it does not answer."""
    try:
        reply = await http.request("GET", f"{daemon.url}/readyz")
    except HttpError:
        return ""
    return "" if reply.status == 200 else str(reply.json()["reason"])


async def test_daemons_stand_back_while_brokers_move_their_metadata(
    new_cluster: NewCluster,
    http: HttpClient,
    coordinator: ZooKeeperStore,
    zookeeper: SharedEnsemble,
    chroot: str,
) -> None:
    async with new_cluster(3, allowMixedCluster="true") as daemons:
        await daemons.wait_ready(http)
        one, other, third = daemons.all
        await third.stop()
        await make_namespace(http, one)
        await eventually(lambda: look_up(http, one, TOPIC))
        assert len(await coordinator.children(paths.MIGRATION_PARTICIPANTS)) == 2
        await set_phase(coordinator, "PREPARATION")

        async def is_nobody_waited_for() -> bool:
            return not await coordinator.children(paths.MIGRATION_PARTICIPANTS)

        await eventually(is_nobody_waited_for, what="both daemons have stood back")
        await set_phase(coordinator, "COPYING")
        before = await changes(coordinator)
        for daemon in (one, other):
            assert await look_up(http, daemon, TOPIC) == {}
            url = f"{daemon.url}/admin/v2/namespaces/public/refused"
            reply = await http.request("PUT", url, json={"bundles": {"numBundles": 1}})
            assert reply.status == 503, reply.body
            assert b"phase " in reply.body
        unload = "/admin/v2/namespaces/public/default/0x00000000_0x40000000/unload"
        for daemon, receiver in ((one, other), (other, one)):
            url = f"{daemon.url}{unload}?destinationBroker={receiver.broker_id}"
            reply = await http.request("PUT", url)
            assert reply.status >= 400, reply.body

        # One that starts now takes longer than any period in which the others would have written.
        await third.start()

        async def says(daemon: DaemonProcess, phase: str) -> bool:
            return f"phase {phase} in " in await reason(http, daemon)

        for daemon in daemons.all:
            await eventually(partial(says, daemon, "COPYING"), what="the reason")
        assert await changes(coordinator) == before

        await set_phase(coordinator, "FAILED")
        await daemons.wait_ready(http)
        await eventually(lambda: look_up(http, third, TOPIC))
        assert len(await coordinator.children(paths.MIGRATION_PARTICIPANTS)) == 3

        await set_phase(coordinator, "COMPLETED")
        for daemon in daemons.all:
            await eventually(partial(says, daemon, "COMPLETED"), what="the reason")
        url = f"metadataStoreUrl=zk:{zookeeper.connect_string}{chroot}"
        asked = [url, "allowMixedCluster=true", *(f"{k}={v}" for k, v in SETTINGS.items())]
        findings = await examine_ensembles(load(None, {}, asked), SystemClock(), 5.0)
        (found,) = (one for one in findings if one.check == "metadata migration")
        assert found.level is FindingLevel.ERROR
        assert "phase COMPLETED" in found.found
