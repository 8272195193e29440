"""Names with control characters: they forge no log line, and no terminal obeys them."""

import asyncio
import logging
from urllib.parse import quote

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.cli.runtime.output import escape_values, print_facts, print_table
from broker_ctl.core.model.names import Topic
from broker_ctl.daemon.lifecycle.logs import TextFormatter
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.fake_services import NAMESPACE, serving_brokers
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S

TITLE = "\x1b]0;pwned\x07"
SHOWN = r"\x1b]0;pwned\x07"
FORGED = "2026-11-22 10:00:00.000 INFO    session: session 1: connected -> expired"


def logged(message: str, *args: object, error: BaseException | None = None) -> list[str]:
    """The lines that a record becomes."""
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("broker_ctl.x", logging.INFO, "x.py", 1, message, args, info)
    return TextFormatter().format(record).split("\n")


def test_a_name_in_a_message_ends_no_line_of_the_log() -> None:
    (line,) = logged("topic %s: %s", f"x\n{FORGED}", TITLE)
    assert line.endswith(rf"x: topic x\n{FORGED}: {SHOWN}")


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x85", "\u2028", "\x9b31m", "\u202e"])
def test_no_other_line_end_or_control_character_reaches_the_log(end: str) -> None:
    (line,) = logged("topic %s", f"x{end}{FORGED}")
    assert line.isprintable()


def test_a_name_in_an_error_forges_no_line_below_the_message() -> None:
    try:
        raise ValueError(f"x\n{FORGED} {TITLE}")
    except ValueError as error:
        first, *trace = logged("it failed", error=error)
    assert first.endswith("it failed")
    assert f"  {FORGED} {SHOWN}" in trace
    assert all(line.startswith("  ") for line in trace)


@pytest.mark.parametrize("rows", [1, 2_000])
def test_a_table_shows_control_characters_escaped(
    rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(f"t{TITLE}", (f"c{TITLE}",), [(f"x{TITLE}\n{FORGED}",)] * rows)
    print_facts("", {f"k{TITLE}": TITLE, "list": [{"name": TITLE}]})
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert f"x{SHOWN}\\n" in out
    assert not any(line.startswith(FORGED) for line in out.splitlines())


def test_a_screen_is_made_of_escaped_values() -> None:
    state = {"broker": TITLE, "rows": [{"name": TITLE, "n": 1}], "is_on": True, "none": None}
    safe = {"broker": SHOWN, "rows": [{"name": SHOWN, "n": 1}], "is_on": True, "none": None}
    assert escape_values(state) == safe


async def run(*arguments: str) -> Result:
    """A command, beside the servers of this loop."""
    return await asyncio.to_thread(CliRunner().invoke, main, arguments)


async def test_an_error_shows_the_reason_of_a_daemon_escaped() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": "Busy", "reason": f"{TITLE}\n{FORGED}"}, status=409)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serving(app) as url:
        result = await run("leader", "show", "--url", url)
    assert result.exit_code == 1
    assert SHOWN in result.output
    assert "\x1b" not in result.output


async def test_a_topic_of_a_pulsar_cluster_is_listed_escaped_and_can_be_deleted() -> None:
    async with serving_brokers([free_port(), free_port()]) as (leader, _):
        topic = Topic("persistent", NAMESPACE, f"x{TITLE}")
        node = paths.partitioned_topic(topic)
        await leader.metadata.store.create(node, b'{"partitions":1}', make_parents=True)
        listed = await run(
            *("topics", "list-partitioned-topics", str(NAMESPACE), "--url", leader.url)
        )
        assert listed.exit_code == 0
        assert f"persistent://{NAMESPACE}/x{SHOWN}" in listed.output
        assert "\x1b" not in listed.output
        url = f"{leader.url}/admin/v2/persistent/{NAMESPACE}/{quote(topic.local)}/partitions"
        async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
            assert (await http.request("DELETE", url)).status == 204


@pytest.mark.parametrize("local", [f"x\n{FORGED}", f"x{TITLE}", "x\x85", "x\u2028"])
async def test_no_topic_with_control_characters_is_created(local: str) -> None:
    async with (
        serving_brokers([free_port(), free_port()]) as (leader, _),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        url = f"{leader.url}/admin/v2/persistent/{NAMESPACE}/{quote(local)}/partitions"
        reply = await http.request("PUT", url, json=1)
        assert reply.status == 412
        assert "control characters" in reply.json()["reason"]
        assert reply.json()["reason"].isprintable()
