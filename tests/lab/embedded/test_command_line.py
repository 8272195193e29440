"""The command line as a user runs it."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker_ctl.cli.main import VERBS, Verbs, main
from broker_ctl.daemon.wiring.keys import identity_of
from broker_ctl.daemon.wiring.stores import node_access
from broker_ctl.errors import EmbeddedError, SettingsError
from broker_ctl.settings.sources import load
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.rules.processes import is_gone
from tests.support.time.waiting import eventually

RUN = ("-c", "from broker_ctl.cli.main import main; main()")


@asynccontextmanager
async def zookeeper_command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *RUN, "zookeeper", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # As at a terminal: a process group of its own, which gets the Ctrl-C.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def wait_connect_string(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        async for line in process.stdout:
            if found := re.search(r"serving at (\S+)", line.decode()):
                return found[1]
    raise AssertionError("it ended without serving")


async def ending(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def create_as_daemon(connect_string: str, secret: Path, path: str) -> None:
    settings = load(None, {}, [f"zookeeperSaslDigestFile={secret}"])
    options = StoreOptions(
        connect_string, identity=identity_of(settings), access=node_access(settings)
    )
    store = ZooKeeperStore(options)
    await store.start()
    try:
        await store.create(path)
    finally:
        await store.close()


def servers_of(process: asyncio.subprocess.Process) -> list[int]:
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


def free_port(count: int = 1) -> int:
    """The first of ``count`` consecutive ports that are free now."""
    while True:
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError, OverflowError):
            first = taken.enter_context(socket.create_server(("127.0.0.1", 0)))
            port: int = first.getsockname()[1]
            for offset in range(1, count):
                taken.enter_context(socket.create_server(("127.0.0.1", port + offset)))
            return port


async def test_zookeeper_serves_until_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--dir", str(tmp_path), "--port", str(port), "--heap", "128m")
    async with zookeeper_command(*arguments) as process:
        connect_string = await wait_connect_string(process)
        assert connect_string == f"127.0.0.1:{port}"
        client = KazooClient(connect_string)
        client.start()
        client.create("/a")
        await create_as_daemon(connect_string, tmp_path / "broker.secret", "/closed")
        with pytest.raises(NoAuthError):
            client.get("/closed")
        client.stop()
        client.close()
        servers = servers_of(process)
        # The terminal's Ctrl-C must not reach the servers: they are stopped in order.
        assert [os.getpgid(pid) == process.pid for pid in servers] == [False]
        os.killpg(process.pid, signal.SIGINT)
        assert await ending(process) == (0, "stopped\n", "")
        assert all(map(is_gone, servers))


async def test_zookeeper_with_three_servers_stops_on_sigterm(tmp_path: Path) -> None:
    port = free_port(3)
    arguments = ("--nodes", "3", "--dir", str(tmp_path), "--port", str(port), "--heap", "128m")
    async with zookeeper_command(*arguments) as process:
        connect_string = await wait_connect_string(process)
        assert connect_string == ",".join(f"127.0.0.1:{port + offset}" for offset in range(3))
        servers = servers_of(process)
        assert len(servers) == 3
        process.terminate()
        assert await ending(process) == (0, "stopped\n", "")
        assert all(map(is_gone, servers))


async def test_one_of_three_servers_that_dies_is_started_again(tmp_path: Path) -> None:
    port = free_port(3)
    arguments = ("--nodes", "3", "--dir", str(tmp_path), "--port", str(port), "--heap", "128m")
    async with zookeeper_command(*arguments) as process:
        connect_string = await wait_connect_string(process)
        first, *others = servers_of(process)
        os.kill(first, signal.SIGKILL)
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert "died (SIGKILL)" in (await process.stdout.readline()).decode()
        client = KazooClient(connect_string)
        client.start(timeout=60)
        client.create("/written-without-it")
        client.stop()
        client.close()
        async with asyncio.timeout(60):
            async for line in process.stdout:
                if "serves again" in line.decode():
                    break
        # With two of three gone there is no quorum: the command ends, and prints the reason.
        for server in others:
            os.kill(server, signal.SIGKILL)
        code, _, err = await ending(process)
        assert code == 1
        assert "died (SIGKILL)" in err
        assert all(map(is_gone, [first, *others]))


async def test_ctrl_c_during_the_start_leaves_no_server(tmp_path: Path) -> None:
    async with zookeeper_command("--dir", str(tmp_path), "--port", str(free_port())) as process:
        servers = await eventually(lambda: servers_of(process), what="the start has begun")
        process.send_signal(signal.SIGINT)
        code, out, err = await ending(process)
        assert (code, err) == (0, "")
        assert out.endswith("stopped\n")
        assert "serving" not in out
        assert all(map(is_gone, servers))


async def test_zookeeper_ends_with_the_reason_when_a_server_dies(tmp_path: Path) -> None:
    async with zookeeper_command("--dir", str(tmp_path), "--port", str(free_port())) as process:
        await wait_connect_string(process)
        (server,) = servers_of(process)
        os.kill(server, signal.SIGKILL)
        code, _, err = await ending(process)
        assert code == 1
        assert err.startswith("Error: ZooKeeper server 1 died (SIGKILL)")
        assert "Traceback" not in err


async def test_zookeeper_says_that_a_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with zookeeper_command("--dir", str(tmp_path), "--port", str(port)) as process:
            code, _, err = await ending(process)
    assert code == 1
    assert re.match(rf"Error: port {port} on 127\.0\.0\.1 cannot be used: .*in use\n$", err)


def test_a_heap_that_is_not_a_size_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["zookeeper", "--heap", "lots"])
    assert result.exit_code == 2
    assert "'lots' is not a size such as 256m or 1g" in result.output


LIST_VERBS = """
import sys
from broker_ctl.cli.main import main
main(["--help"], standalone_mode=False)
heavy = {"aiohttp", "aiozk", "numpy", "pyspark", "rich", "uvloop"}
print("loaded:", *sorted(heavy & sys.modules.keys()))
"""


def test_help_lists_every_verb_and_loads_nothing_heavy() -> None:
    out = subprocess.run(
        [sys.executable, "-c", LIST_VERBS], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    context = click.Context(main)
    for verb in VERBS:
        command = main.get_command(context, verb)
        is_listed = re.search(rf"^  {verb}  +\S", out, re.MULTILINE) is not None
        assert command is not None
        assert is_listed is not command.hidden, verb
    assert out.endswith("loaded:\n")


def group_that(failure: Exception) -> click.Group:
    group = Verbs()

    @group.command()
    def fail() -> None:
        raise failure

    return group


@pytest.mark.parametrize(
    "failure",
    [
        SettingsError("first reason"),
        ExceptionGroup("", [SettingsError("first reason"), EmbeddedError("second reason")]),
        ExceptionGroup("", [ExceptionGroup("", [SettingsError("first reason")])]),
    ],
)
def test_an_error_of_ours_is_one_message_and_exit_code_1(failure: Exception) -> None:
    result = CliRunner().invoke(group_that(failure), ["fail"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: first reason\n")
    assert ("second reason" in result.stderr) == ("second" in repr(failure))


@pytest.mark.parametrize(
    "bug", [KeyError("x"), ExceptionGroup("", [SettingsError("a reason"), KeyError("x")])]
)
def test_a_bug_keeps_its_traceback(bug: Exception) -> None:
    result = CliRunner().invoke(group_that(bug), ["fail"])
    assert result.exception is bug
