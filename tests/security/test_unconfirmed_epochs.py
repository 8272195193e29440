"""Commands and instructions at an epoch that no election has reached."""

from pathlib import Path
from typing import Any

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from tests.support.daemon.running_daemons import leader_of, make_namespace
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

NAMESPACE = Namespace("public", "default")
NEVER = 2**63 - 1
SETTLED = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}


async def test_a_command_at_an_epoch_of_the_future_does_not_fence_the_leader(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path, 2, {**store, **SETTINGS, **SETTLED}) as daemons,
    ):
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0])
        found = await eventually(lambda: leader_of(http, daemons.all))
        assert found is not None
        _, epoch = found
        url = f"{daemons.all[0].url}/control/v1/owners?namespace={NAMESPACE}"
        bundle = (await http.request("GET", url)).json()[0]["bundle"]
        victim = daemons.all[1]
        for verb in ("prepare", "acquire"):
            forged = {"epoch": NEVER, "bundle": bundle, "move": "x", "version": 0}
            reply = await http.request("POST", f"{victim.url}/control/v1/{verb}", json=forged)
            assert reply.status == 409, reply.body
        reply = await http.request(
            "POST",
            f"{victim.url}/control/v1/acquire",
            json={"epoch": epoch, "bundle": bundle},
        )
        assert reply.status == 200, reply.body


async def test_an_instruction_at_an_epoch_of_the_future_does_not_fence_the_controller(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "metadataStoreSessionTimeoutMillis": "4000",
        "replicaPollMillis": "100",
    }
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        ReplicatedDaemons(tmp_path, 1, settings, http) as daemons,
    ):
        url = f"{daemons.by_id[1].url}/control/v1/instructions"
        forged: dict[str, Any] = {
            "version": 1,
            "controller": 1,
            "controller_epoch": NEVER,
            "broker": 1,
            "broker_epoch": 0,
            "full": False,
            "after": None,
            "until": None,
            "brokers": {},
            "topics": {},
            "partitions": [],
            "stops": [],
        }
        reply = await http.request("POST", url, json=forged)
        assert reply.status == 409, reply.body
        assert reply.json()["controller_epoch"] < NEVER
        forged["controller_epoch"] = reply.json()["controller_epoch"]
        reply = await http.request("POST", url, json=forged)
        assert "is stale" not in reply.json().get("reason", ""), reply.body
