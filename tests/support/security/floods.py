"""Floods of a bounded size, from a process of their own: ``floods.py KIND HOST PORT``.

The process writes to its standard output how often there was which answer, as JSON.
"""

import asyncio
import json
import sys
import time
import zlib
from collections import Counter
from contextlib import AsyncExitStack
from typing import Final

FLOOD_S: Final = 10.0
LIMIT_S: Final = 60.0
SCRAPERS: Final = 1_500
READS: Final = 105
BOMBS: Final = 25
BOMB_BYTES: Final = 256 << 20
SILENT: Final = 10_000
ADDRESSES: Final = 20
POLICIES_PATH: Final = "/admin/v2/clusters/quickstart/namespaceIsolationPolicies"


class Flood:
    """One flood: the daemon, how often there was which answer, and what ended connections."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.answers: Counter[str] = Counter()

    async def connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """From one of several addresses, each with fewer connections than its limit."""
        address = f"127.0.0.{2 + number % ADDRESSES}"
        return await asyncio.open_connection(self.host, self.port, local_addr=(address, 0))

    async def exchange(self, number: int, request: bytes, until_s: float, most: int) -> None:
        """Send a request again and again over one connection."""
        try:
            reader, writer = await self.connect(number)
        except OSError:
            self.answers["not connected"] += 1
            return
        try:
            for _ in range(most):
                if time.monotonic() >= until_s:
                    return
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.answers[head.split()[1].decode()] += 1
        except (OSError, asyncio.IncompleteReadError):
            self.answers["disconnected"] += 1
        finally:
            writer.close()


async def scrapes(flood: Flood) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    until_s = time.monotonic() + FLOOD_S
    async with asyncio.TaskGroup() as group:
        for number in range(SCRAPERS):
            work = flood.exchange(number, request, until_s, 1_000)
            group.create_task(work, name="scraper")


async def hostile_reads(flood: Flood) -> None:
    """The longest texts that a client may choose, all different: no answer is known before."""
    until_s = time.monotonic() + LIMIT_S
    async with asyncio.TaskGroup() as group:
        for number in range(READS):
            text = f"{'a-' * 30}{number:03}:8080"
            head = f"GET {POLICIES_PATH}/brokers/{text} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            work = flood.exchange(number, head.encode(), until_s, 1)
            group.create_task(work, name="reader")


async def bombs(flood: Flood) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    body = packer.compress(bytes(BOMB_BYTES)) + packer.flush()
    head = (
        "POST /control/v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    until_s = time.monotonic() + LIMIT_S
    async with asyncio.TaskGroup() as group:
        for number in range(BOMBS):
            work = flood.exchange(number, head.encode() + body, until_s, 1)
            group.create_task(work, name="bomb")


async def silent_sockets(flood: Flood) -> None:
    async with AsyncExitStack() as stack:
        for number in range(SILENT):
            # The process has a bound on its open files; the daemon closes the oldest sockets.
            try:
                _, writer = await flood.connect(number)
            except OSError:
                flood.answers["not connected"] += 1
                continue
            flood.answers["connected"] += 1
            stack.callback(writer.close)
            if number % 50 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(1)


FLOODS: Final = {
    "scrapes": scrapes,
    "hostile-reads": hostile_reads,
    "bombs": bombs,
    "silent-sockets": silent_sockets,
}


if __name__ == "__main__":
    made = Flood(sys.argv[2], int(sys.argv[3]))
    asyncio.run(FLOODS[sys.argv[1]](made))
    sys.stdout.write(json.dumps(made.answers))
