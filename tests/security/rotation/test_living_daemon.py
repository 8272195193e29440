"""One daemon that lives while its certificates are replaced, on both protocols."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from broker_ctl.api.binary.enums import CommandType
from broker_ctl.http_client import HttpClient
from tests.support.daemon.in_memory_daemon import Run
from tests.support.daemon.listening_daemon import listening_daemon
from tests.support.daemon.whole_daemon import readings
from tests.support.http.binary_client import PING, BinaryClient
from tests.support.security.authority import LOOPBACK
from tests.support.security.replaced_files import replace
from tests.support.time.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILING = "broker_ctl_secret_reload_failing"
RELOADS = "broker_ctl_secret_reloads_total"
SERVER = ("server-tls",)
TLS_PORTS = {"webServicePortTls", "lookupServicePortTls"}


@dataclass
class Living:
    """A daemon, with the files that it serves."""

    run: Run
    ports: dict[str, int]
    certificate: Path
    key: Path

    def install(self, authority: trustme.CA, *, of: trustme.CA | None = None) -> None:
        """Write a new certificate; its key is of another one with ``of``."""
        leaf = authority.issue_cert(LOOPBACK)
        other = leaf if of is None else of.issue_cert(LOOPBACK)
        replace(self.certificate, b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        replace(self.key, other.private_key_pem.bytes())

    async def check(self) -> None:
        await self.run.around.reloader.check()

    def reading(self, name: str, *labels: str) -> float:
        return readings(self.run.assembly.foundation.instruments, name)[labels]

    async def served(self, authority: trustme.CA) -> set[str]:
        """The TLS ports at which new connections get a certificate of this authority."""
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(client)
        found = set[str]()
        for key in TLS_PORTS:
            with suppress(ssl.SSLCertVerificationError):
                _, writer = await asyncio.open_connection(LOOPBACK, self.ports[key], ssl=client)
                writer.transport.abort()
                found.add(key)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def living(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Living]:
    directory = tmp_path_factory.mktemp("served")
    files = directory / "cert.pem", directory / "key.pem"
    leaf = trustme.CA().issue_cert(LOOPBACK)
    replace(files[0], b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    replace(files[1], leaf.private_key_pem.bytes())
    async with listening_daemon(
        f"tlsCertificateFilePath={files[0]}", f"tlsKeyFilePath={files[1]}"
    ) as (run, ports):
        yield Living(run, ports, *files)


async def test_new_connections_get_the_new_certificate_and_old_ones_live(living: Living) -> None:
    first, second = trustme.CA(), trustme.CA()
    living.install(first)
    await living.check()
    assert await living.served(first) == TLS_PORTS
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    first.configure_trust(trusting)
    web = f"https://{LOOPBACK}:{living.ports['webServicePortTls']}/livez"
    async with (
        BinaryClient.connected(living.ports["lookupServicePortTls"], trusting) as binary,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=trusting) as http,
    ):
        assert (await http.request("GET", web)).status == 200
        before = living.reading(RELOADS, *SERVER, "success")
        living.install(second)
        # What SIGHUP does.
        living.run.around.reloader.check_soon()

        async def is_replaced() -> bool:
            return await living.served(second) == TLS_PORTS

        await eventually(is_replaced)
        assert await living.served(first) == set()
        assert living.reading(RELOADS, *SERVER, "success") == before + 1
        # By the connections of before: the client would not trust the new certificate.
        assert (await http.request("GET", web)).status == 200
        binary.writer.write(PING)
        assert (await binary.receive()).type == CommandType.PONG


async def test_a_key_of_another_certificate_keeps_the_old_pair(
    living: Living, caplog: pytest.LogCaptureFixture
) -> None:
    served, refused = trustme.CA(), trustme.CA()
    living.install(served)
    await living.check()
    assert await living.served(served) == TLS_PORTS
    assert living.reading(FAILING, *SERVER) == 0
    with caplog.at_level(logging.ERROR):
        living.install(refused, of=served)
        for _ in range(3):
            await living.check()
    assert living.reading(FAILING, *SERVER) == 1
    assert await living.served(served) == TLS_PORTS
    lines = [line for line in caplog.messages if "server-tls" in line]
    assert len(lines) == 1
    assert f"tlsKeyFilePath={living.key}: is not the key" in lines[0]
    living.install(refused)
    await living.check()
    assert await living.served(refused) == TLS_PORTS
    assert living.reading(FAILING, *SERVER) == 0


@pytest.mark.parametrize("size", [0, 100])
async def test_a_half_written_certificate_keeps_the_old_one(living: Living, size: int) -> None:
    served = trustme.CA()
    living.install(served)
    await living.check()
    assert await living.served(served) == TLS_PORTS
    replace(living.certificate, living.certificate.read_bytes()[:size])
    await living.check()
    assert living.reading(FAILING, *SERVER) == 1
    assert await living.served(served) == TLS_PORTS
