"""Verbs that ask a daemon of an earlier build, whose answers had other fields."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from broker_ctl.cli.main import main
from tests.support.http.web_server import serving

BROKER, BUNDLE = "b:8080", "t/ns/0x00000000_0x80000000"
CLUSTER = {
    "leader": BROKER,
    "epoch": 3,
    "cycle": 7,
    "imbalance": {"usage": 1.5, "throughput": 1.2},
    "brokers": [
        {"broker": BROKER, "usage": 0.4, "msg_rate": 9.0, "bundles": 3, "draining": False},
    ],
    "bundles": [{"bundle": BUNDLE, "owner": BROKER, "msg_rate": 9.0, "throughput": 8.0}],
    "moves": [],
}
# What a daemon answered before quantities had their units in the names of their fields.
EARLIER: dict[str, Any] = {
    "/admin/v2/brokers": [BROKER],
    "/admin/v2/brokers/leaderBroker": {"brokerId": BROKER},
    "/control/v1/cluster": CLUSTER,
    "/control/v1/drains": [{"broker": BROKER, "state": "draining", "bundles_left": 2}],
    "/control/v1/history": [{"at_s": 1.0, "cycle": 7, "kind": "transfer", "bundle": BUNDLE}],
    "/control/v1/plan": {"decisions": [], "id": "0123456789ab", "skipped": []},
    "/control/v1/status": {"broker": BROKER, "draining": False},
}
VERBS = [
    (("brokers", "list"), "/control/v1/cluster"),
    (("drain",), "/control/v1/drains"),
    (("history",), "/control/v1/history"),
    (("plan",), "/control/v1/plan"),
    (("status", "--cluster"), "/control/v1/cluster"),
]


async def _answer(request: web.Request) -> web.Response:
    found = EARLIER.get(request.path)
    return web.json_response({"reason": "no such path"} if found is None else found,
                             status=404 if found is None else 200)  # fmt: skip


@pytest.mark.parametrize(("verb", "path"), VERBS, ids=[" ".join(verb) for verb, _ in VERBS])
async def test_the_reply_of_an_earlier_build_is_explained_in_one_sentence(
    verb: tuple[str, ...], path: str
) -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _answer)
    async with serving(app) as url:
        asked = [*verb, "--url", url]
        found = await asyncio.to_thread(CliRunner().invoke, main, asked)
        assert found.exit_code == 1, found.output
        assert (
            f"Error: the daemon at {url.removeprefix('http://')} has another version"
            in found.stderr
        )
        assert f"use the broker-ctl installed with the daemon [GET {path}]" in found.stderr
        assert isinstance(found.exception, SystemExit), "no traceback"


async def test_what_is_only_handed_on_is_shown_whatever_its_form() -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _answer)
    async with serving(app) as url:
        asked = ["history", "--output", "json", "--url", url]
        found = await asyncio.to_thread(CliRunner().invoke, main, asked)
        assert json.loads(found.stdout) == EARLIER["/control/v1/history"]
        table = await asyncio.to_thread(CliRunner().invoke, main, ["status", "--url", url])
        assert table.exit_code == 0, table.output
        assert BROKER in table.stdout
