"""Connecting by name: one address after the other, and no lookup that outlives its caller."""

import asyncio
import gc
import socket
from typing import Any

import pytest
import uvloop

from broker_ctl.store.zookeeper.addresses import first_reachable
from broker_ctl.store.zookeeper.four_letter_words import send_word

NOBODY = "no-such-host.invalid"


async def test_the_next_address_is_tried_and_the_last_one_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 1, 0, 7)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.9", 1)),
    ]

    async def found(*_: Any, **__: Any) -> Any:
        return addresses

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    tried: list[str] = []

    async def connect(address: str, *, wanted: str = "127.0.0.9") -> str:
        tried.append(address)
        if address != wanted:
            raise ConnectionRefusedError(address)
        return address

    assert await first_reachable("zk", 1, connect) == "127.0.0.9"
    assert tried == ["fe80::1%7", "127.0.0.9"]
    addresses.reverse()
    tried.clear()
    assert await first_reachable("zk", 1, connect) == "127.0.0.9"
    assert tried == ["127.0.0.9"]
    addresses.pop(0)
    with pytest.raises(ConnectionRefusedError, match="fe80::1%7"):
        await first_reachable("zk", 1, connect)


def test_a_lookup_that_its_caller_gave_up_is_not_reported() -> None:
    """In the loop of the daemon: what nobody retrieved would be in its log."""
    reported: list[dict[str, Any]] = []

    async def give_up() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        with pytest.raises(TimeoutError):
            await send_word(NOBODY, 1, "ruok", limit_s=0)
        # As long as the resolver needs for the same name.
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo(NOBODY, 1)
        gc.collect()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(give_up())
    assert reported == []
