"""What `doctor` says of the release of a ZooKeeper server."""

import asyncio
from contextlib import suppress

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.doctor.ensemble import examine_ensembles, has_reverse_dns_hole
from broker_ctl.daemon.doctor.machine import FindingLevel
from broker_ctl.settings.sources import load

SRVR = """Zookeeper version: {version}-abc, built on 2025-10-01 10:00 UTC
Latency min/avg/max: 0/0.0/0
Received: 1
Sent: 0
Connections: 1
Outstanding: 0
Zxid: 0x5
Mode: standalone
Node count: 5
"""


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ("3.7.2", False),
        ("3.8.0", True),
        ("3.8.5", True),
        ("3.8.6", False),
        ("3.9.4", True),
        ("3.9.4-1234abcd", True),
        ("3.9.5", False),
        ("3.10.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_releases_with_the_hole_are_known(version: str, has_it: bool) -> None:
    assert has_reverse_dns_hole(version) is has_it


@pytest.mark.parametrize(("version", "count"), [("3.9.4", 1), ("3.9.5", 0)])
async def test_a_server_with_a_known_hole_is_named_with_the_release_that_mends_it(
    version: str, count: int
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            if await reader.readexactly(4) == b"srvr":
                writer.write(SRVR.format(version=version).encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = load(None, {}, [f"metadataStoreUrl=zk:127.0.0.1:{port}"])
        findings = await examine_ensembles(settings, SystemClock(), 0.5)
    found = [one for one in findings if "CVE-2026-24281" in one.found]
    assert len(found) == count, [one.found for one in findings]
    for one in found:
        assert one.level is FindingLevel.WARNING
        assert f"127.0.0.1:{port} (3.9.4" in one.found
        assert "3.9.5" in one.advice
