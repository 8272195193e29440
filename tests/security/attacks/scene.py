"""What the attacks are made on: daemons of one tree of the code, beside a ZooKeeper server."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.support.daemon.running_daemons import NAMESPACE
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.anonymous import anonymous_client

SECRET: Final = "S3cretAdminToken0123456789"
VIEWER: Final = "V1ewerTokenOfTheScene0123456789"
_MOST_SEEN: Final = 150
_BASE: Final = {
    "clusterName": "attacked",
    "metadataStoreSessionTimeoutMillis": "6000",
    "zookeeperTickTimeMillis": "500",
    "dataPlane": "simulated",
    "hostUsageSource": "dataplane",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an attack succeeds, and what its attacker sees."""

    succeeds: bool
    seen: str

    @classmethod
    def of_status(cls, reply: HttpReply, *good: int) -> "Outcome":
        """It succeeds by one of these statuses."""
        return cls(reply.status in good, str(reply.status))


@dataclass(frozen=True, slots=True)
class Scene:
    """Two clusters of one daemon each.

    Attributes:
        guarded: asks clients for tokens, and ignores no grants.
        open_one: serves everybody, on loopback.
        operator: a client with the token of a super user; stranger: one without any; viewer: one
            with a token of viewerRoles.
        tokens: the file of the guarded daemon.
    """

    directory: Path
    address: str
    guarded: DaemonProcess
    open_one: DaemonProcess
    operator: HttpClient
    stranger: HttpClient
    viewer: HttpClient
    tokens: Path

    @property
    def history(self) -> Path:
        """The directory of the guarded daemon."""
        return self.directory / "history"

    async def ask(
        self,
        who: HttpClient,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
    ) -> HttpReply:
        """A request to the guarded daemon, or to another one by its whole address."""
        whole = url if "://" in url else self.guarded.url + url
        more = headers or {}
        return await who.request(method, whole, json=json, content=content, sign=lambda *_: more)

    def log_of(self, daemon: DaemonProcess) -> str:
        """All that it has logged."""
        return daemon.files.log.read_text(encoding="utf-8", errors="replace")

    @asynccontextmanager
    async def another(self, name: str, settings: Mapping[str, str]) -> AsyncIterator[DaemonProcess]:
        """One more daemon, of a cluster of its own, until the end of the block."""
        with anonymous_client(self.address) as client:
            client.ensure_path(f"/{name}")
        store = f"zk:{self.address}/{name}"
        whole = {**_BASE, "clusterName": name, "metadataStoreUrl": store, **settings}
        async with Daemons(self.directory / name, 1, whole) as daemons:
            (one,) = daemons.all
            await one.wait_ready(self.operator, PATIENCE_S)
            yield one

    async def starts(self, name: str, settings: Mapping[str, str]) -> Outcome:
        """Whether a daemon serves with these settings besides, or ends by itself."""
        with reserve_port() as web, reserve_port() as native:
            lines = {
                **_BASE,
                "metadataStoreUrl": f"zk:{self.address}/guarded",
                "webServicePort": str(port_of(web)),
                "brokerServicePort": str(port_of(native)),
                **settings,
            }
            file, log = self.directory / f"{name}.conf", self.directory / f"{name}.log"
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            with log.open("ab") as out:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "broker_ctl", "run", "-c", str(file)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=out,
                )
            url = f"http://127.0.0.1:{port_of(web)}/livez"

            async def decides() -> bool:
                if process.returncode is not None:
                    return True
                with suppress(HttpError):
                    return (await self.stranger.request("GET", url)).status == 200
                return False

            try:
                await eventually(decides, what=f"{name} serves or ends")
                serves = process.returncode is None
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        return Outcome(serves, "it serves" if serves else "".join(last)[:_MOST_SEEN])


async def _make_namespace(operator: HttpClient, daemon: DaemonProcess) -> None:
    """The earliest daemons knew no tenants."""
    clusters = (await operator.request("GET", f"{daemon.url}/admin/v2/clusters")).json()
    for path, body in (
        (f"tenants/{NAMESPACE.partition('/')[0]}", {"allowedClusters": clusters}),
        (f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 4}}),
    ):
        made = await operator.request("PUT", f"{daemon.url}/admin/v2/{path}", json=body)
        assert made.status in {204, 404, 409}, made.body


async def command(*arguments: str) -> tuple[int, bytes]:
    """Exit code and all output of a command of the tree."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_ctl", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output


def secret_file(path: Path, text: str, mode: int = 0o600) -> Path:
    """A file of secrets."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@asynccontextmanager
async def scene(directory: Path, address: str) -> AsyncIterator[Scene]:
    """Start the daemons, and make what the attacks are about."""
    with anonymous_client(address) as client:
        for chroot in ("/guarded", "/open"):
            client.ensure_path(chroot)
    tokens = secret_file(directory / "tokens", f"admin:{SECRET}\nviewer:{VIEWER}\n")
    guarded = {
        **_BASE,
        "metadataStoreUrl": f"zk:{address}/guarded",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticateMetricsEndpoint": "true",
        "tokenSecretKeyFile": str(tokens),
        "superUserRoles": "admin",
        "viewerRoles": "viewer",
        "loadHistoryDirectory": str(directory / "history"),
        "tlsCertRefreshCheckDurationSec": "1",
    }
    open_one = {
        **_BASE,
        "clusterName": "open",
        "metadataStoreUrl": f"zk:{address}/open",
        "httpServerIdleTimeout": "4000",
    }
    async with AsyncExitStack() as stack:
        operator = await stack.enter_async_context(
            HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=8 << 20)
        )
        stranger = await stack.enter_async_context(
            HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20)
        )
        viewer = await stack.enter_async_context(
            HttpClient(token=VIEWER, timeout_s=PATIENCE_S, max_body_bytes=8 << 20)
        )
        running: list[DaemonProcess] = []
        for name, settings in (("guarded", guarded), ("open", open_one)):
            daemons = Daemons(directory / name, 1, settings)
            await stack.enter_async_context(daemons)
            running += daemons.all
        for daemon in running:
            await daemon.wait_ready(operator, PATIENCE_S)
            await _make_namespace(operator, daemon)
        protected, unprotected = running
        yield Scene(directory, address, protected, unprotected, operator, stranger, viewer, tokens)
