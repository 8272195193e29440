"""Who holds the state, and where it is: a directory, and an API server of Kubernetes."""

import asyncio
import os
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.errors import (
    Ambiguous,
    AuthFailed,
    ConnectionLoss,
    NoAuth,
    SessionExpired,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.store.in_process.keeper import (
    EMPTY,
    DirectoryKeeper,
    KubernetesKeeper,
    Place,
    Spectator,
)
from tests.support.http.web_server import serving
from tests.support.kubernetes.api_server import ApiServer

TIMEOUT_S = 10.0


class Later(SystemClock):
    """The system's clock, ahead of it by some seconds."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


@asynccontextmanager
async def candidates(
    server: ApiServer, *holders: str
) -> AsyncIterator[list[tuple[KubernetesKeeper, Later]]]:
    async with serving(server.app()) as url:
        found = []
        for holder in holders:
            http = HttpClient(token="pod", timeout_s=5.0, max_body_bytes=1 << 20)
            clock = Later()
            found.append(
                (KubernetesKeeper(Place(url, "here", "state", holder), http, clock), clock)
            )
        yield found
        for keeper, _ in found:
            await keeper.close()


async def test_a_directory_keeps_the_state_for_the_next_holder(tmp_path: Path) -> None:
    first, second = DirectoryKeeper(tmp_path / "a" / "b"), DirectoryKeeper(tmp_path / "a" / "b")
    assert await first.acquire(TIMEOUT_S) == EMPTY
    await first.write(b"one")
    await first.write(b"two")
    with pytest.raises(ConnectionLoss, match=f"process {os.getpid()} holds"):
        await second.acquire(TIMEOUT_S)
    assert await second.read() == b"two"
    await first.release()
    assert await second.acquire(TIMEOUT_S) == b"two"
    with pytest.raises(SessionExpired):
        await first.write(b"three")
    assert await second.read() == b"two"
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["lock", "state.json"]


async def test_a_removed_lock_ends_the_hold(tmp_path: Path) -> None:
    keeper = DirectoryKeeper(tmp_path)
    await keeper.acquire(TIMEOUT_S)
    (tmp_path / "lock").unlink()
    with pytest.raises(SessionExpired, match="was removed"):
        await keeper.renew()


async def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    hold = "import fcntl as f, sys; l = open(sys.argv[1], 'w'); f.flock(l, 2); print(''); input()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-uS", "-c", hold, str(tmp_path / "lock")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    keeper = DirectoryKeeper(tmp_path)
    with pytest.raises(ConnectionLoss):
        await keeper.acquire(TIMEOUT_S)
    process.kill()
    await process.wait()
    assert await keeper.acquire(TIMEOUT_S) == EMPTY


async def test_a_spectator_reads_and_writes_nothing(tmp_path: Path) -> None:
    holder = DirectoryKeeper(tmp_path)
    await holder.acquire(TIMEOUT_S)
    await holder.write(b"one")
    spectator = Spectator(DirectoryKeeper(tmp_path))
    assert await spectator.acquire(TIMEOUT_S) == b"one"
    with pytest.raises(NoAuth):
        await spectator.write(b"two")


async def test_a_lease_passes_on_when_it_is_released_and_no_earlier() -> None:
    server = ApiServer()
    async with candidates(server, "a", "b") as ((a, _), (b, clock)):
        assert await a.acquire(TIMEOUT_S) == EMPTY
        await a.write(b"one")
        assert server.lease()["holderIdentity"] == "a"
        with pytest.raises(ConnectionLoss, match="a holds the Lease here/state"):
            await b.acquire(TIMEOUT_S)
        clock.ahead_s += TIMEOUT_S - 1
        with pytest.raises(ConnectionLoss):
            await b.acquire(TIMEOUT_S)
        await a.release()
        assert await b.acquire(TIMEOUT_S) == b"one"
        assert server.lease()["leaseTransitions"] == 2


async def test_a_renewed_lease_is_waited_for_again() -> None:
    server = ApiServer()
    async with candidates(server, "a", "b") as ((a, _), (b, clock)):
        await a.acquire(TIMEOUT_S)
        with pytest.raises(ConnectionLoss):
            await b.acquire(TIMEOUT_S)
        clock.ahead_s += TIMEOUT_S - 1
        await a.renew()
        with pytest.raises(ConnectionLoss):
            await b.acquire(TIMEOUT_S)
        clock.ahead_s += TIMEOUT_S - 1
        with pytest.raises(ConnectionLoss):
            await b.acquire(TIMEOUT_S)


async def test_a_former_holder_that_slept_can_neither_renew_nor_write() -> None:
    server = ApiServer()
    async with candidates(server, "a", "b") as ((a, _), (b, clock)):
        await a.acquire(TIMEOUT_S)
        await a.write(b"one")
        with pytest.raises(ConnectionLoss):
            await b.acquire(TIMEOUT_S)
        clock.ahead_s += TIMEOUT_S
        assert await b.acquire(TIMEOUT_S) == b"one"
        # Before the successor has written anything of its own.
        with pytest.raises(SessionExpired):
            await a.write(b"two")
        with pytest.raises(SessionExpired):
            await a.renew()
        assert await b.read() == b"one"


async def test_who_may_update_the_objects_says_what_the_state_is_and_who_holds_it() -> None:
    server = ApiServer()
    async with candidates(server, "a", "b", "stranger") as ((a, _), (b, clock), (stranger, _)):
        await a.acquire(TIMEOUT_S)
        await a.write(b"one")
        # An account with the right to update both: nothing in them is signed.
        lease = server.objects["leases", "here", "state"]
        lease["spec"]["holderIdentity"] = "stranger"
        server._store(("leases", "here", "state"), lease)
        kept = server.objects["configmaps", "here", "state"]
        kept["binaryData"]["state"] = b64encode(b"forged").decode()
        server._store(("configmaps", "here", "state"), kept)
        for act in (a.renew(), a.write(b"two")):
            # The holder notices, and acts no more.
            with pytest.raises(SessionExpired):
                await act
        assert await stranger.read() == b"forged"
        with pytest.raises(ConnectionLoss, match="stranger holds the Lease"):
            await b.acquire(TIMEOUT_S)
        clock.ahead_s += TIMEOUT_S
        assert await b.acquire(TIMEOUT_S) == b"forged"


async def test_a_lost_answer_is_resolved_by_reading() -> None:
    server = ApiServer()
    async with candidates(server, "a") as ((a, _),):
        await a.acquire(TIMEOUT_S)
        server.is_mute = True
        await a.write(b"one")
        await a.renew()
        server.is_mute = False
        await a.write(b"two")
        assert await a.read() == b"two"
        server.is_down = True
        with pytest.raises(ConnectionLoss):
            await a.renew()
        with pytest.raises((Ambiguous, ConnectionLoss)):
            await a.write(b"three")


async def test_missing_rights_and_a_refused_token_are_named() -> None:
    server = ApiServer()
    async with candidates(server, "a") as ((a, _),):
        server.forbidden.add("create leases")
        with pytest.raises(NoAuth, match=r"may not POST .*/leases"):
            await a.acquire(TIMEOUT_S)
        server.forbidden.clear()
        server.token = "another"
        with pytest.raises(AuthFailed):
            await a.acquire(TIMEOUT_S)
