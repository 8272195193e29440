"""A name with several addresses: each is a server, and no lookup outlives its caller."""

import asyncio
import gc
import random
import re
import socket
from typing import Any

import pytest
import uvloop

from broker_ctl.addresses import look_up, look_up_all
from broker_ctl.errors import ConnectionLoss
from broker_ctl.store.zookeeper.dialer import Dialer
from broker_ctl.store.zookeeper.server_status import ask_all, probe, send_word, verdict
from broker_ctl.store.zookeeper.store import StoreOptions
from tests.store.zookeeper.conftest import OpenStore
from tests.support.zookeeper.ensemble import SharedEnsemble

NOBODY = "no-such-host.invalid"


class Names:
    """What the resolver of this test says."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[tuple[Any, ...]]] = {}

    def __setitem__(self, host: str, addresses: list[str]) -> None:
        self.addresses[host] = [(one, 0) for one in addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    known, real = Names(), socket.getaddrinfo

    def found(host: str, port: Any, *rest: Any, **options: Any) -> Any:
        if host in known.addresses:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, address) for address in known.addresses[host]]
        return real(host, port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return known


async def test_each_address_is_a_server_and_that_of_a_link_names_its_interface(
    names: Names,
) -> None:
    names.addresses["zk"] = [("fe80::1", 1, 0, 7), ("127.0.0.9", 1), ("127.0.0.9", 1)]
    names["one"] = ["10.0.0.1"]
    found = await look_up_all([("zk", 1), ("one", 2)], 1.0)
    assert [(one.found, str(one)) for one in found] == [
        ("fe80::1%7", "zk:1 at fe80::1%7"),
        ("127.0.0.9", "zk:1 at 127.0.0.9"),
        ("10.0.0.1", "one:2"),
    ]


@pytest.mark.parametrize("host", [NOBODY, "a" * 64 + ".invalid"])
async def test_a_name_without_an_address_is_a_server_that_cannot_be_reached(host: str) -> None:
    (found,) = await look_up(host, 1, 30.0)
    assert found.failure
    with pytest.raises(OSError, match=re.escape(found.failure)):
        _ = found.address
    with pytest.raises(ConnectionLoss, match=re.escape(found.failure)):
        await probe(found, max_frame_bytes=1000)


async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)
    writer.close()


@pytest.mark.parametrize("order", [("127.0.0.7", "127.0.0.1"), ("127.0.0.1", "127.0.0.7")])
async def test_a_silent_address_does_not_use_up_the_time_of_the_others(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
    names: Names,
    order: tuple[str, str],
) -> None:
    """Whatever the order in which the resolver has them."""
    port = zookeeper.servers[0].client_port
    names["zk.test"] = list(order)
    async with await asyncio.start_server(keep_silent, "127.0.0.7", port):
        async with asyncio.timeout(60.0):
            store = await open_store(f"zk.test:{port}", rooted)
            await store.get("/")
        standings = await ask_all([("zk.test", port)], limit_s=0.5)
        assert verdict(standings)[0]
        assert [one.server for one in standings] == [f"zk.test:{port} at {one}" for one in order]
        await store.close()


async def test_clients_do_not_all_begin_with_the_same_address(names: Names) -> None:
    names["zk"] = [f"10.0.0.{last}" for last in range(3)]

    async def first(seed: int) -> str:
        return (await Dialer([("zk", 1)], random.Random(seed)).next_server(30.0)).found

    assert {await first(seed) for seed in range(30)} == {"10.0.0.0", "10.0.0.1", "10.0.0.2"}


async def test_a_name_is_looked_up_in_each_round_and_the_last_answer_is_kept(names: Names) -> None:
    names["zk"] = ["10.0.0.1", "10.0.0.2"]
    dialer = Dialer([("zk", 1)], random.Random(1))
    tried = {(await dialer.next_server(30.0)).found for _ in range(2)}
    assert tried == {"10.0.0.1", "10.0.0.2"}
    names["zk"] = ["10.0.0.3"]
    assert (await dialer.next_server(30.0)).found == "10.0.0.3"
    del names.addresses["zk"]
    # The resolver is away, too.
    assert (await dialer.next_server(0.6)).found == "10.0.0.3"


async def test_all_addresses_can_be_tried_in_a_third_of_the_timeout(names: Names) -> None:
    names["zk"] = [f"10.0.0.{last}" for last in range(6)]
    dialer = Dialer([("zk", 1)], random.Random(1))
    await dialer.next_server(9.0)
    assert dialer.limit_s(9.0) == pytest.approx(0.5)


def test_a_lookup_that_its_caller_gave_up_is_not_reported() -> None:
    """In the loop of the daemon: what nobody retrieved would be in its log."""
    reported: list[dict[str, Any]] = []

    async def give_up() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        (server,) = await look_up(NOBODY, 1, limit_s=0)
        assert server.failure
        with pytest.raises(OSError, match="not found within 0 s"):
            await send_word(server, "ruok", limit_s=1.0)
        # As long as the resolver needs for the same name.
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo(NOBODY, 1)
        gc.collect()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(give_up())
    assert reported == []
