"""A whole cluster restarts broker by broker: real daemons, ZooKeeper, verb and restart command."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.tasks import TaskScope
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("public", "default")
TOPICS = [Topic("persistent", NAMESPACE, f"t-{number}") for number in range(24)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@asynccontextmanager
async def supervised(daemons: Daemons, directory: Path) -> AsyncIterator[dict[str, int]]:
    """A supervisor that starts each daemon again that ends, as systemd would; counts starts."""
    starts = {daemon.broker_id: 1 for daemon in daemons.all}

    async def supervise(daemon: DaemonProcess) -> None:
        while True:
            pid = directory / daemon.broker_id.rpartition(":")[2]
            pid.write_text(str(daemon.pid), encoding="utf-8")
            await daemon.wait()
            await daemon.start()
            starts[daemon.broker_id] += 1

    async with TaskScope("supervisors") as tasks:
        for daemon in daemons.all:
            tasks.start(supervise(daemon), daemon.broker_id)
        yield starts


async def verb(*words: str) -> tuple[int, Any]:
    """Exit code and JSON of ``broker-ctl``; its errors in place of JSON where it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "broker_ctl", *words, "--output", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    code = process.returncode
    assert code is not None
    return code, json.loads(out) if code == 0 else errors.decode()


# Not while the daemon that is asked restarts itself.
async def is_paused(target: tuple[str, ...]) -> bool:
    return (await verb("rollout", "pause", *target))[0] == 0


async def is_aborted(target: tuple[str, ...]) -> bool:
    return (await verb("rollout", "abort", *target))[0] == 0


async def test_every_broker_restarts_once_the_leader_last_and_a_failed_restart_is_resumed(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    async with new_cluster(3, loadBalancerSheddingEnabled="false") as daemons:
        await daemons.wait_ready(http)
        first = daemons.all[0]
        await make_namespace(http, first, bundles=12)
        for topic in TOPICS:
            await eventually(partial(look_up, http, first, topic), what=str(topic))
        found = await leader_of(http, daemons.all)
        assert found is not None
        leader = found[0].broker_id
        # Whom the verb asks restarts too.
        target = ("--url", first.url, "--yes")
        command = f"sh -c 'kill -TERM $(cat {tmp_path}/{{port}})'"
        async with supervised(daemons, tmp_path) as starts:
            refused = await verb("rollout", "run", *target, "--restart-command", "false")
            assert refused[0] == 1
            assert "false ended with exit code 1" in refused[1]
            # Each way to end it, and one to hold it, before it is gone through with.
            assert (await verb("rollout", "abort", *target))[0] == 0
            _, state = await verb("rollout", "status", "--wait", "--url", first.url)
            assert state["state"] == "aborted", state
            assert (await verb("rollout", "run", *target, "--restart-command", "false"))[0] == 1
            code, said = await verb("rollout", "rollback", *target, "--restart-command", command)
            assert code == 0, said
            # The one whose restart was begun: nobody knows how far it came.
            assert sorted(starts.values()) == [1, 1, 2]
            async with asyncio.TaskGroup() as running:
                run = ("rollout", "run", *target, "--restart-command", command)
                running.create_task(verb(*run), name="rollout run")
                await eventually(partial(is_paused, target), what="a pause of what runs")
                await eventually(partial(is_aborted, target), what="an end of what runs")
            before = dict(starts)
            assert (await verb("rollout", "run", *target, "--restart-command", "false"))[0] == 1
            code, said = await verb("rollout", "resume", *target, "--restart-command", command)
            assert code == 0, said
            assert starts == {broker: count + 1 for broker, count in before.items()}
        row = said["rollout"]
        assert row["batches"][-1] == [leader]
        assert {broker["state"] for broker in row["brokers"]} == {"done"}
        code, state = await verb("rollout", "status", "--url", first.url)
        assert (code, state["state"]) == (0, "done")
        reply = await http.request("GET", f"{first.url}/control/v1/pause", allow_redirects=True)
        assert reply.json() == {"paused": False}
        for topic in TOPICS:
            assert await eventually(partial(look_up, http, first, topic), what=str(topic))
