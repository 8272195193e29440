"""``broker-ctl zookeeper status`` and ``raise-epoch``: servers of another ensemble."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.store.interface import CreateMode
from tests.store.zookeeper.conftest import OpenStore, open_store
from tests.support.http.web_server import free_port
from tests.support.rules.json_units import out_of_system
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.restorable import restorable

__all__ = ["open_store"]

SERVING = (
    "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12\n"
    "Latency min/avg/max: 0/0.0/0\nConnections: 3\nZxid: 0x1a00000005\nMode: {}\n"
    "Node count: 5\n"
)
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["zookeeper", *map(str, arguments)])


async def run_beside(*arguments: str | Path) -> Result:
    """The verb has a loop of its own."""
    return await asyncio.to_thread(run, *arguments)


# Who serves.


@asynccontextmanager
async def saying(*answers: str) -> AsyncIterator[str]:
    """Servers that answer four letters."""

    async def of(answer: str) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await reader.readexactly(4) == b"srvr"
            writer.write(answer.encode())
            writer.close()

        return await asyncio.start_server(serve, "127.0.0.1", 0)

    servers = [await of(answer) for answer in answers]
    try:
        yield ",".join(f"127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in servers)
    finally:
        for one in servers:
            one.close()


@pytest.mark.parametrize(
    ("answers", "states", "code", "expected"),
    [
        (["leader", "follower"], ["leader", "follower"], 0, "all 2 serve"),
        (["follower", ""], ["follower", "not serving"], 0, "1 of 2 serve"),
        (["", ""], ["not serving", "not serving"], 1, "2 of 2 are up, and have no quorum"),
        (["standalone"], ["standalone"], 0, "is the standalone; all 1 serve"),
        (["read-only"], ["read-only"], 1, "no leader: none of 1"),
        (["moonstruck"], ["unknown"], 1, "no leader: none of 1"),
    ],
)
async def test_each_server_says_what_part_it_plays(
    answers: list[str], states: list[str], code: int, expected: str
) -> None:
    said = [SERVING.format(mode) if mode else NOT_SERVING for mode in answers]
    async with saying(*said) as hosts:
        result = await run_beside("status", hosts, "--output", "json")
        row = json.loads(result.output)
        assert list(out_of_system(row)) == []
        assert [one["state"] for one in row["servers"]] == states
        assert expected in row["verdict"]
        assert row["has_leader"] == (code == 0)
        assert result.exit_code == code
        table = await run_beside("status", hosts)
        assert expected in table.output


async def test_a_server_that_serves_shows_its_version_and_newest_transaction() -> None:
    async with saying(SERVING.format("leader")) as hosts:
        (row,) = json.loads((await run_beside("status", hosts, "--output", "json")).output)[
            "servers"
        ]
        assert (row["version"], row["zxid"], row["connections"]) == ("3.8.4", "0x1a00000005", "3")


async def test_other_answers_and_none_are_shown_as_such() -> None:
    refusing = "srvr is not executed because it is not in the whitelist.\n"
    async with saying(refusing) as hosts:
        everybody = f"{hosts},127.0.0.1:{free_port()}"
        result = await run_beside("status", everybody, "--output", "json")
        odd, gone = json.loads(result.output)["servers"]
        assert (odd["state"], odd["note"]) == ("unknown", refusing.strip())
        assert (gone["state"], bool(gone["note"])) == ("unreachable", True)
        assert result.exit_code == 1


async def test_a_server_that_says_nothing_is_given_up_after_the_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        result = await run_beside("status", host, "--timeout", "0.2")
        assert "no answer within 0.2 s" in result.output


async def test_the_servers_of_a_configuration_are_asked(
    zookeeper: SharedEnsemble, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"metadataStoreUrl=zk:{zookeeper.connect_string}/chroot\n")
    result = await run_beside("status", "--config", file, "--output", "json")
    assert result.exit_code == 0, result.output
    servers = [one["server"] for one in json.loads(result.output)["servers"]]
    assert ",".join(servers) == zookeeper.connect_string
    assert run("status").exit_code == run("status", "zk1", "--config", file).exit_code == 2


# A copy that is put back.


def data_of(directory: Path, accepted: str = "26\n", current: str = "26") -> Path:
    data = directory / "version-2"
    data.mkdir()
    (data / "acceptedEpoch").write_text(accepted)
    (data / "currentEpoch").write_text(current)
    (data / "snapshot.1b00000002").write_text("")
    (data / "log.1a00000001").write_text("")
    return data


def written(data: Path) -> tuple[str, str]:
    return (data / "acceptedEpoch").read_text(), (data / "currentEpoch").read_text()


@pytest.mark.parametrize("is_whole", [False, True], ids=["dataDir", "version-2"])
def test_both_files_get_an_epoch_above_all_that_was_seen(tmp_path: Path, is_whole: bool) -> None:
    data = data_of(tmp_path)
    (data / "currentEpoch").chmod(0o640)
    result = run("raise-epoch", data if is_whole else tmp_path, "--seen", "0x1C00000005")
    assert result.exit_code == 0, result.output
    assert written(data) == ("128\n", "128\n")
    assert (data / "currentEpoch").stat().st_mode & 0o777 == 0o640
    assert f"{data / 'currentEpoch'} is raised from 26 to 128" in result.output
    assert "--epoch 128" in result.output
    assert sorted(entry.name for entry in data.iterdir()) == [
        "acceptedEpoch",
        "currentEpoch",
        "log.1a00000001",
        "snapshot.1b00000002",
    ]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    result = run("raise-epoch", tmp_path, "--epoch", "128", "--dry-run", "--output", "json")
    assert json.loads(result.output) == {
        "directory": str(data),
        "was": {"acceptedEpoch": 26, "currentEpoch": 26},
        "epoch": 128,
        "dry_run": True,
    }
    assert written(data) == ("26\n", "26")
    assert "would be raised" in run("raise-epoch", tmp_path, "--epoch", "128", "--dry-run").output


@pytest.mark.parametrize(
    ("spoil", "options", "expected"),
    [
        ("", ["--epoch", "27"], "epoch 27 must be above 27, the epoch of the copy"),
        ("", ["--seen", "0x0"], ""),
        ("", ["--seen", f"0x{(1 << 63) - 1:x}"], "at most 2147483647"),
        ("rm version-2/currentEpoch", ["--epoch", "99"], "a server without an ensemble"),
        (
            "echo x > version-2/acceptedEpoch",
            ["--epoch", "99"],
            "acceptedEpoch: 'x' is not an epoch",
        ),
        ("rm version-2/*.1*", ["--epoch", "99"], "nothing is restored"),
        ("rm -r version-2", ["--epoch", "99"], "dataDir of a ZooKeeper server is expected"),
    ],
)
def test_a_directory_that_is_not_a_resumable_copy_is_left_alone(
    tmp_path: Path, spoil: str, options: list[str], expected: str
) -> None:
    data = data_of(tmp_path)
    subprocess.run(spoil, shell=True, cwd=tmp_path, check=True)
    result = run("raise-epoch", tmp_path, *options)
    assert expected in result.output
    if expected:
        assert result.exit_code == 1
        kept = [file.read_text() for file in data.glob("*Epoch")]
        assert not {"99\n", "27\n"} & {*kept}
    else:
        assert written(data) == ("100\n", "100\n")


@pytest.mark.parametrize(
    "options", [[], ["--seen", "0x1", "--epoch", "5"], ["--seen", "12"], ["--epoch", "0"]]
)
def test_one_number_is_needed(tmp_path: Path, options: list[str]) -> None:
    data_of(tmp_path)
    assert run("raise-epoch", tmp_path, *options).exit_code == 2


def test_a_directory_that_a_process_has_files_open_in_is_refused(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    with (data / "log.1a00000001").open():
        result = run("raise-epoch", tmp_path, "--epoch", "99")
    assert result.exit_code == 1
    assert f"process {os.getpid()} serves from {data}" in result.output
    assert run("raise-epoch", tmp_path, "--epoch", "99").exit_code == 0


def test_a_server_that_has_opened_nothing_yet_is_known_by_its_configuration(
    tmp_path: Path,
) -> None:
    data = data_of(tmp_path)
    (tmp_path / "zoo.cfg").write_text(f"tickTime=500\ndataDir = {tmp_path}\n")
    sleeper = "import sys; sys.stdin.read()"
    words = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"]
    with subprocess.Popen(
        [sys.executable, "-c", sleeper, *words], cwd=tmp_path, stdin=subprocess.PIPE
    ) as server:
        result = run("raise-epoch", tmp_path, "--epoch", "99", "--dry-run")
    assert f"process {server.pid} serves from {data}" in result.output


@pytest.mark.slow
async def test_servers_of_a_copy_that_was_raised_are_ahead_of_all_that_was_seen(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with restorable(tmp_path, 3) as servers:
        store = await open_store(servers.ensemble.connect_string)
        await store.create("/a", b"")
        await servers.stop()
        servers.copy()
        await servers.start()
        await store.wait_connected()
        token = (await store.create("/owned", b"", CreateMode.EPHEMERAL)).stat.czxid
        directories = sorted(one.parent for one in (tmp_path / "zk").rglob("version-2"))
        refused = await run_beside("raise-epoch", directories[0], "--seen", f"0x{token:x}")
        assert "stop the ZooKeeper server first" in refused.output
        await servers.stop()
        await eventually(lambda: not store.is_connected)
        servers.restore()
        for directory in directories:
            result = await run_beside("raise-epoch", directory, "--seen", f"0x{token:x}")
            assert result.exit_code == 0, result.output
        # One alone has no leader, and says so.
        alone = servers.ensemble.servers[0]
        await alone.start()
        hosts = servers.ensemble.connect_string

        async def is_up() -> bool:
            result = await run_beside("status", hosts)
            assert result.exit_code == 1
            return "1 of 3 are up, and have no quorum" in result.output

        await eventually(is_up, deadline_s=60.0)
        await alone.stop()
        await servers.start()
        assert (await run_beside("status", hosts)).exit_code == 0
        await store.wait_connected()
        node = await store.create("/owned", b"", CreateMode.EPHEMERAL)
        assert node.stat.czxid >> 32 > (token >> 32) + 99
