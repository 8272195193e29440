"""Daemons that are reached over TLS: by clients, by each other, and by the command line."""

import asyncio
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pulsar.asyncio
import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.daemon.wiring.tls import KeyPair, PemFile, client_context
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.own_settings import OwnSettings
from tests.support.http.binary_client import BinaryClient
from tests.support.security.authority import Issued, issue
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

NAMESPACE = Namespace("public", "default")
SETTLED = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}


@pytest.fixture
def files(tmp_path: Path) -> Issued:
    return issue(tmp_path / "ours")


@asynccontextmanager
async def cluster(
    zookeeper: SharedEnsemble, chroot: str, directory: Path, settings: dict[str, str]
) -> AsyncIterator[list[tuple[DaemonProcess, str]]]:
    """Two daemons with a TLS port each, and where that is."""
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    with ExitStack() as held:
        ports = [port_of(held.enter_context(reserve_port())) for _ in range(2)]
        own = [{"webServicePortTls": str(port)} for port in ports]
        async with OwnSettings(directory, SETTINGS | SETTLED | store | settings, own) as daemons:
            urls = [f"https://127.0.0.1:{port}" for port in ports]
            yield list(zip(daemons.all, urls, strict=True))


def trusting(files: Issued, shown: Issued | None = None) -> HttpClient:
    """A client that trusts an authority, with a certificate or without."""
    own = None
    if shown is not None:
        own = KeyPair(PemFile("cert", shown.certificate), PemFile("key", shown.key))
    tls = client_context(PemFile("ca", files.authority), own)
    return HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=tls)


async def is_ready(http: HttpClient, url: str) -> bool:
    try:
        return (await http.request("GET", f"{url}/readyz")).status == 200
    except HttpError:
        return False


async def make_namespace(http: HttpClient, url: str) -> None:
    await make_tenant(http, url, NAMESPACE.tenant)
    made = await http.request(
        "PUT", f"{url}/admin/v2/namespaces/{NAMESPACE}", json={"bundles": {"numBundles": 8}}
    )
    assert made.status == 204, made.body


def path_of(number: int) -> str:
    topic = Topic("persistent", NAMESPACE, f"t-{number}")
    return f"/lookup/v2/topic/{topic.domain}/{NAMESPACE}/{topic.local}"


async def owner(http: HttpClient, url: str, number: int) -> dict[str, Any]:
    """The answer after all redirects; empty where there is none yet."""
    try:
        reply = await http.request("GET", url + path_of(number), allow_redirects=True)
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


async def redirected(http: HttpClient, urls: list[str]) -> tuple[HttpReply, int]:
    """The redirect of the one that does not lead; and for which topic, which nobody owns."""

    async def found() -> tuple[HttpReply, int] | None:
        for number in range(64):
            for url in urls:
                reply = await http.request("GET", url + path_of(number))
                if reply.status == 307:
                    return reply, number
        return None

    return await eventually(found, what="a redirect")


async def verb(*arguments: str) -> tuple[int, str, str]:
    """What a verb of the command line says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_both_ports_answer_and_a_redirect_keeps_the_scheme(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, files: Issued
) -> None:
    async with (
        cluster(zookeeper, chroot, tmp_path / "c", files.served | files.trusted) as served,
        trusting(files) as http,
        trusting(issue(tmp_path / "strangers")) as stranger,
    ):
        open_urls, tls_urls = [one.url for one, _ in served], [url for _, url in served]
        for url in (*open_urls, *tls_urls):
            await eventually(partial(is_ready, http, url), what=url)
        await make_namespace(http, tls_urls[0])
        for urls in (tls_urls, open_urls):
            sent_on, number = await redirected(http, urls)
            assert sent_on.headers["Location"].startswith(tuple(urls))
            for url in urls:
                found = await eventually(partial(owner, http, url, number), what="an owner")
                assert found["httpUrl"] in open_urls
                assert found["httpUrlTls"] in tls_urls
        with pytest.raises(HttpError, match="certificate"):
            await stranger.request("GET", tls_urls[0] + path_of(0))
        await assert_the_command_line_reaches(tls_urls, files)


async def test_binary_lookups_over_tls_name_the_broker_s_tls_address(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, files: Issued
) -> None:
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    with ExitStack() as held:
        port, theirs = (port_of(held.enter_context(reserve_port())) for _ in range(2))
        own = {"lookupServicePortTls": str(port), "brokerServicePortTls": str(theirs)}
        settings = SETTINGS | SETTLED | store | files.served
        async with (
            OwnSettings(tmp_path / "c", settings, [own]) as daemons,
            trusting(files) as http,
        ):
            url = daemons.all[0].url
            await eventually(partial(is_ready, http, url), what=url)
            await make_namespace(http, url)
            topic = str(Topic("persistent", NAMESPACE, "t-0"))
            tls = client_context(PemFile("ca", files.authority), None)
            async with BinaryClient.connected(port, tls) as client:

                async def found() -> str:
                    return str((await client.find(topic)).brokerServiceUrlTls)

                there = await eventually(found, what="an owner")
            assert there == f"pulsar+ssl://127.0.0.1:{theirs}"
            stock = pulsar.asyncio.Client(
                f"pulsar+ssl://127.0.0.1:{port}", tls_trust_certs_file_path=str(files.authority)
            )
            try:
                assert await stock.get_topic_partitions(topic) == [topic]
            finally:
                await stock.close()
            await assert_sighup_replaces_the_certificate(daemons.all[0], port, files)


async def assert_sighup_replaces_the_certificate(
    daemon: DaemonProcess, port: int, files: Issued
) -> None:
    """Without a restart, and without waiting for the next check."""
    new, pid = issue(files.authority.parent / "new"), daemon.pid
    for theirs, ours in ((new.certificate, files.certificate), (new.key, files.key)):
        theirs.rename(ours)
    daemon.signal(signal.SIGHUP)
    trusting_new = client_context(PemFile("ca", new.authority), None)

    async def is_replaced() -> bool:
        try:
            async with BinaryClient.connected(port, trusting_new):
                return True
        except ssl.SSLCertVerificationError:
            return False

    await eventually(is_replaced, what="the new certificate")
    assert daemon.pid == pid


async def assert_the_command_line_reaches(urls: list[str], files: Issued) -> None:
    """With the authority in an option or in the environment, and not without."""
    asked = ("topics", "lookup", str(Topic("persistent", NAMESPACE, "t-0")), "--url", urls[0])
    code, out, err = await verb(*asked, "--tls-ca", str(files.authority))
    assert code == 0, err
    assert "pulsar://" in out
    code, out, err = await verb(*asked)
    assert code == 1
    assert "--tls-ca sets the trusted authorities" in err


async def test_brokers_with_nothing_but_tls_reach_each_other_with_their_certificates(
    zookeeper: SharedEnsemble,
    chroot: str,
    tmp_path: Path,
    files: Issued,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The environment is over the file, in which every daemon has a port in the clear.
    monkeypatch.setenv("BROKER_CTL_webServicePort", "")
    wanted = {
        "tlsTrustCertsFilePath": str(files.authority),
        "tlsRequireTrustedClientCertOnConnect": "true",
    }
    settings = files.served | files.trusted | files.shown | wanted
    async with (
        cluster(zookeeper, chroot, tmp_path / "c", settings) as served,
        trusting(files, files) as http,
        trusting(files) as bare,
    ):
        urls = [url for _, url in served]
        for url in urls:
            await eventually(partial(is_ready, http, url), what=url)
        await make_namespace(http, urls[0])
        owners = {
            (await eventually(partial(owner, http, urls[0], number)))["httpUrlTls"]
            for number in range(16)
        }
        assert owners == set(urls)
        # The broker that is asked has the other one unload what is not its own.
        unloaded = await http.request("PUT", f"{urls[1]}/admin/v2/namespaces/{NAMESPACE}/unload")
        assert unloaded.status == 204, unloaded.body
        with pytest.raises(HttpError):
            await bare.request("GET", urls[0] + path_of(0))
        with pytest.raises(HttpError):
            await http.request("GET", f"{served[0][0].url}/livez")
        shown = ("--tls-cert", str(files.certificate), str(files.key))
        code, out, err = await verb(
            "status", "--url", urls[0], "--tls-ca", str(files.authority), *shown
        )
        assert code == 0, err
        assert urls[0].removeprefix("https://") in out


async def test_a_key_of_another_certificate_ends_the_start_with_one_sentence(
    tmp_path: Path, files: Issued
) -> None:
    other = issue(tmp_path / "other")
    settings = files.served | {
        "tlsKeyFilePath": str(other.key),
        "webServicePortTls": "8443",
        "metadataStoreUrl": "zk:127.0.0.1:1",
    }
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    code, _, err = await verb("run", *given)
    assert code == 1
    assert f"tlsKeyFilePath={other.key}: is not the key" in err
    assert "Traceback" not in err
