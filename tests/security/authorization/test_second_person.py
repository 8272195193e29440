"""Two people approve a plan: with real daemons, over HTTP, by the command line and the console."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.model.names import Bundle, Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

ROLES: Final = {name: f"S3cret-of-{name}-0123456789" for name in ("anna", "bert", "carl", "view")}
TOPIC: Final = Topic("persistent", Namespace("public", "default"), "orders")
PLANS: Final = "/control/v1/plans"


def written(path: Path, text: str) -> str:
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def settings(zookeeper: SharedEnsemble, chroot: str, tmp_path: Path) -> dict[str, str]:
    lines = "".join(f"{name}:{token}\n" for name, token in ROLES.items())
    return {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "tokenSecretKeyFile": written(tmp_path / "tokens", lines),
        "superUserRoles": "bert,carl",
        "operatorRoles": "anna",
        "viewerRoles": "view",
        "dualAuthorizationEnabled": "true",
        # The plan is the operators' to carry out.
        "dryRun": "true",
    }


@asynccontextmanager
async def clients() -> AsyncIterator[dict[str, HttpClient]]:
    made = {
        name: HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=8 << 20)
        for name, token in ROLES.items()
    }
    try:
        yield made
    finally:
        for client in made.values():
            await client.close()


async def plan_file(
    http: HttpClient, leader: DaemonProcess, daemons: Sequence[DaemonProcess]
) -> dict[str, Any]:
    """A placement plan that moves one bundle to the broker that does not own it."""
    await make_namespace(http, leader)
    await eventually(partial(look_up, http, leader, TOPIC), what="an owner")
    step = f"{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
    bundle = (await http.request("GET", f"{leader.url}/lookup/v2/topic/{step}/bundle")).body

    async def owner() -> str:
        url = f"{leader.url}/control/v1/owners?namespace=public/default"
        rows = (await http.request("GET", url)).json()
        return next((row["owner"] for row in rows if row["bundle"] == name), "") or ""

    name = f"{TOPIC.namespace}/{bundle.decode()}"
    source = await eventually(owner, what="its owner")
    to = next(one.broker_id for one in daemons if one.broker_id != source)
    now_ms = SystemClock().wall_ms()
    moves = (PlannedMove(Bundle.parse(name), source, to, 1.0),)
    file = PlanFile("quickstart", now_ms, now_ms - 2, now_ms - 1, moves, (1.5,), (1.1,))
    return file.to_row()


async def command(leader: DaemonProcess, token: Path, *words: str) -> str:
    """What a command prints; it succeeds."""
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_ctl", *words),
        *("--url", leader.url, "--token-file", str(token)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await run.communicate()
    assert run.returncode == 0, out.decode()
    return out.decode()


async def test_a_plan_takes_a_proposer_and_another_who_saw_just_that(
    settings: dict[str, str], tmp_path: Path
) -> None:
    anna_s = tmp_path / "anna"
    written(anna_s, ROLES["anna"])
    async with clients() as by, Daemons(tmp_path, 2, settings) as cluster:
        await cluster.wait_ready(by["carl"])
        leader, _ = await eventually(partial(leader_of, by["carl"], cluster.all), what="a leader")
        file = await plan_file(by["carl"], leader, cluster.all)

        async def look(role: str) -> dict[str, Any]:
            row = (await by[role].request("POST", leader.url + PLANS, json=file)).json()
            return dict(row) if row.get("decisions") else {}

        seen = await eventually(partial(look, "anna"), what="a plan that moves something")
        # Everybody looks, in all ways there are. Nobody has proposed anything by that.
        for role in ("bert", "carl"):
            assert await look(role)
        for role in ROLES:
            for path in ("plan", "plan?verbose=true", "plan?heal_policies=true", "plans"):
                assert (
                    await by[role].request("GET", f"{leader.url}/control/v1/{path}")
                ).status == 200
            shown = await by[role].request("GET", f"{leader.url}{PLANS}/{seen['id']}")
            assert shown.json()["proposed_by"] == ""
        plan = f"{leader.url}{PLANS}/{seen['id']}"
        digest = {"digest": seen["digest"]}

        async def status(role: str, method: str, body: Any = None) -> tuple[int, str]:
            reply = await by[role].request(method, plan, json=body)
            return reply.status, reply.body.decode()

        for role in ("bert", "carl"):
            refused, why = await status(role, "PUT", digest)
            assert (refused, "nobody has proposed" in why) == (403, True)
        assert (await status("view", "POST"))[0] == 403

        said = await command(
            leader, anna_s, "plan", "--propose", seen["id"], "--yes", "--reason", "sale"
        )
        assert f"plan {seen['id']} waits for an approval" in said
        assert "sale" in await command(leader, anna_s, "plan", "--proposals")
        # Neither a second proposal nor another look takes anna's place, or her part.
        assert (await status("bert", "POST"))[0] == 409
        assert (await status("anna", "PUT", digest))[0] == 403
        assert await look("bert")
        for body in (None, {"digest": "0" * 64}):
            assert (await status("bert", "PUT", body))[0] == 409
        assert (await by["view"].request("GET", f"{leader.url}{PLANS}")).json() == []

        await approve_in_console(leader, ROLES["bert"], seen)
        [row] = (await by["view"].request("GET", f"{leader.url}{PLANS}")).json()
        assert (row["id"], row["proposed_by"], row["by"]) == (seen["id"], "anna", "bert")
        proposals = await by["view"].request("GET", f"{leader.url}/control/v1/proposals")
        assert proposals.json() == []


async def approve_in_console(leader: DaemonProcess, token: str, seen: dict[str, Any]) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    own = {"Origin": leader.url}
    async with aiohttp.ClientSession(leader.url, cookie_jar=jar) as page:
        async with page.post(
            "/ui/sign-in", data={"token": token}, headers=own, allow_redirects=False
        ) as reply:
            assert reply.status == 303
        async with page.get("/ui/plan") as reply:
            text = await reply.text()
        assert f"<code>{seen['id']}</code> of anna" in text
        assert f'name="digest" value="{seen["digest"]}"' in text
        form = {"act": "approve", "plan": seen["id"], "digest": seen["digest"]}
        # First the dry run, which approves nothing.
        async with page.get("/ui/act", params=form) as reply:
            assert (reply.status, "Approve the plan?" in await reply.text()) == (200, True)
        async with page.post("/ui/act", data=form, headers=own) as reply:
            assert (reply.status, "Approve the plan: done" in await reply.text()) == (200, True)
