"""Real servers; kazoo is the independent client."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from broker_ctl.errors import EmbeddedError
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Role, ZooKeeperServer
from tests.support.rules.processes import is_gone
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble


@contextmanager
def client_of(ensemble: Ensemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble.connect_string)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def leader_of(ensemble: Ensemble) -> ZooKeeperServer | None:
    try:
        return await ensemble.leader()
    except EmbeddedError:
        return None


async def test_a_single_server_keeps_its_data_over_a_restart(tmp_path: Path) -> None:
    # Characters that mean something to Java's property files, or that they cannot hold.
    directory = tmp_path / "Zoë's: dir \\ #=1"
    async with Ensemble.of(directory) as ensemble:
        (server,) = ensemble.servers
        assert await server.role() is Role.STANDALONE
        with client_of(ensemble) as client:
            client.create("/kept", b"value")
        first_pid, first_port = server.pid, server.client_port
        await server.restart()
        assert server.pid != first_pid
        with client_of(ensemble) as client:
            assert client.get("/kept")[0] == b"value"
        await server.kill()
        assert not server.is_running
        assert server.pid is None
    # A named port is used, though connections of the last run may linger on it.
    async with Ensemble.of(directory, first_port=first_port) as ensemble:
        assert ensemble.connect_string == f"127.0.0.1:{first_port}"
        with client_of(ensemble) as client:
            assert client.get("/kept")[0] == b"value"


@pytest.mark.slow
async def test_three_servers_elect_another_leader_when_theirs_is_killed(tmp_path: Path) -> None:
    async with Ensemble.of(tmp_path, servers=3, heap_mb=128) as ensemble:
        leader = await ensemble.leader()
        assert await leader.role() is Role.LEADER
        assert {server.id for server in await ensemble.followers()} | {leader.id} == {1, 2, 3}
        with client_of(ensemble) as client:
            client.create("/kept", b"value")
        await leader.kill()
        successor = await eventually(lambda: leader_of(ensemble), what="a server leads")
        assert successor is not leader
        with client_of(ensemble) as client:
            assert client.get("/kept")[0] == b"value"
            client.create("/later")
        await leader.restart()
        assert await leader.role() is Role.FOLLOWER
    async with Ensemble.of(tmp_path, servers=3, heap_mb=128) as ensemble:
        with client_of(ensemble) as client:
            assert client.exists("/kept")
            assert client.exists("/later")


async def test_a_paused_server_has_no_role_until_it_is_resumed(tmp_path: Path) -> None:
    async with Ensemble.of(tmp_path) as ensemble:
        (server,) = ensemble.servers
        server.pause()

        async def has_no_role() -> bool:
            return await server.role() is None

        # The signal may reach the process after its answer to a first question.
        await eventually(has_no_role, what="silence")
        assert server.is_running
        server.resume()
        await server.wait_serving()
        server.pause()
        pid = server.pid
        assert pid is not None
    assert is_gone(pid)


def test_the_longest_session_is_a_minute_and_the_shortest_two_ticks(
    zookeeper: SharedEnsemble,
) -> None:
    (server,) = zookeeper.servers
    assert negotiated_ms(server.client_port, 600_000) == 60_000
    assert negotiated_ms(server.client_port, 1) == 1_000


def negotiated_ms(port: int, asked_ms: int) -> int:
    """Open a session by hand, and read what timeout the server grants."""
    hello = b"".join(
        number.to_bytes(size, "big") for number, size in ((0, 4), (0, 8), (asked_ms, 4), (0, 8))
    )
    frame = hello + (16).to_bytes(4, "big") + bytes(16)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = connection.recv(64)
    return int.from_bytes(answer[8:12], "big")


async def test_a_taken_port_is_refused_by_its_number(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedError, match=rf"port {port} .* in use"):
            await Ensemble.of(tmp_path, first_port=port).start()


async def test_a_directory_serves_one_ensemble_of_one_size(tmp_path: Path) -> None:
    async with Ensemble.of(tmp_path) as ensemble:
        with pytest.raises(EmbeddedError, match="another ensemble runs in"):
            await Ensemble.of(tmp_path).start()
        with pytest.raises(EmbeddedError, match="runs already"):
            await ensemble.start()
        assert (await ensemble.leader()).is_running
    with pytest.raises(EmbeddedError, match=r"holds the data of 1 server\(s\), not of 3"):
        await Ensemble.of(tmp_path, servers=3).start()
    with pytest.raises(EmbeddedError, match="1 or 3 servers, not 2"):
        Ensemble.of(tmp_path, servers=2)


async def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="cannot be used"):
        await Ensemble.of(tmp_path / "file" / "below").start()


async def test_a_server_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    version_directory = tmp_path / "server-1" / "data" / "version-2"
    version_directory.parent.mkdir(parents=True)
    version_directory.touch()
    ensemble = Ensemble.of(tmp_path)
    with pytest.raises(EmbeddedError, match=r"server 1 died \(exit status \d+\)") as failure:
        await ensemble.start()
    assert "version-2" in str(failure.value)
    assert "\tat " not in str(failure.value)
    assert ensemble.servers == ()


async def test_a_jvm_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "server-1" / "server.log"
    log.parent.mkdir()
    log.write_text("words of an earlier run\n")
    with pytest.raises(EmbeddedError, match="Too small maximum heap") as failure:
        await Ensemble.of(tmp_path, heap_mb=1).start()
    assert "earlier run" in log.read_text()
    assert "earlier run" not in str(failure.value)


async def test_only_an_unrequested_death_of_a_server_is_a_failure(tmp_path: Path) -> None:
    reports: list[str] = []
    async with Ensemble.of(tmp_path) as ensemble:
        (server,) = ensemble.servers
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(ensemble.supervise(reports.append), name="supervise")
            # A round trip, during which the wait begins.
            assert await server.role() is Role.STANDALONE
            await server.stop()
        await server.restart()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            with pytest.raises(EmbeddedError, match=r"server 1 died \(SIGKILL\)"):
                await ensemble.supervise(reports.append)
        with pytest.raises(EmbeddedError, match="died"):
            await server.wait_serving()
    assert reports == []


async def test_a_server_that_does_not_come_up_in_time_is_an_error(tmp_path: Path) -> None:
    ensemble = Ensemble.of(tmp_path)
    with pytest.raises(EmbeddedError, match=r"server 1 does not serve within 0\.1 s"):
        await ensemble.start(deadline_s=0.1)
    assert ensemble.servers == ()
