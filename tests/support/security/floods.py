"""Floods of a bounded size, from a process of their own: ``floods.py KIND HOST PORT``."""

import asyncio
import sys
import time
import zlib
from contextlib import AsyncExitStack
from typing import Final

FLOOD_S: Final = 10.0
LIMIT_S: Final = 60.0
SCRAPERS: Final = 1_500
READS: Final = 105
BOMBS: Final = 25
BOMB_BYTES: Final = 256 << 20
SILENT: Final = 10_000
POLICIES_PATH: Final = "/admin/v2/clusters/quickstart/namespaceIsolationPolicies"


async def exchange(host: str, port: int, request: bytes, until_s: float, most: int) -> None:
    """Send a request again and again over one connection; statuses do not matter."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return
    try:
        for _ in range(most):
            if time.monotonic() >= until_s:
                return
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def scrapes(host: str, port: int) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    until_s = time.monotonic() + FLOOD_S
    async with asyncio.TaskGroup() as group:
        for _ in range(SCRAPERS):
            group.create_task(exchange(host, port, request, until_s, 1_000), name="scraper")


async def hostile_reads(host: str, port: int) -> None:
    until_s = time.monotonic() + LIMIT_S
    async with asyncio.TaskGroup() as group:
        for number in range(READS):
            text = f"{'a-' * 27}{number:03}:8080"
            head = f"GET {POLICIES_PATH}/brokers/{text} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            group.create_task(exchange(host, port, head.encode(), until_s, 1), name="reader")


async def bombs(host: str, port: int) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    body = packer.compress(bytes(BOMB_BYTES)) + packer.flush()
    head = (
        "POST /control/v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    until_s = time.monotonic() + LIMIT_S
    async with asyncio.TaskGroup() as group:
        for _ in range(BOMBS):
            group.create_task(exchange(host, port, head.encode() + body, until_s, 1), name="bomb")


async def silent_sockets(host: str, port: int) -> None:
    async with AsyncExitStack() as stack:
        for number in range(SILENT):
            # The process has a bound on its open files; the daemon closes the oldest sockets.
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                continue
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
    asyncio.run(FLOODS[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
