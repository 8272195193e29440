"""Files that others write, names that lead elsewhere, and roles that reach too far."""

import asyncio
import os
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from tests.security.attacks.scene import SECRET, Outcome, Scene, command, secret_file
from tests.support.security.authority import issue

_ANSWER: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_OFFLOAD_SECRET: Final = "wJalrXUtnFEMI-SECRET-OF-S3"
_TLS_PROVIDER: Final = "org.apache.pulsar.broker.authentication.AuthenticationProviderTls"


async def authorities_that_others_write(scene: Scene) -> Outcome:
    """Append an authority of one's own, whose certificates are super users."""
    files = issue(scene.directory / "authorities")
    files.authority.chmod(0o666)
    own = {
        "webServicePortTls": "0",
        "tlsTrustCertsFilePath": str(files.authority),
        "authenticationEnabled": "true",
        "authenticationProviders": _TLS_PROVIDER,
        "superUserRoles": "admin",
        "clusterKeyFile": str(
            secret_file(
                scene.directory / "cluster.key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
            )
        ),
        **files.served,
    }
    # A port that is free: the daemon is not called at it.
    with socket.create_server(("127.0.0.1", 0)) as held:
        own["webServicePortTls"] = str(held.getsockname()[1])
    return await scene.starts("authorities", own)


async def secret_that_others_replace(scene: Scene) -> Outcome:
    """Put another file in the place of a closed one, in a directory that others can write."""
    directory = scene.directory / "shared"
    directory.mkdir()
    directory.chmod(0o777)
    file = secret_file(directory / "tokens", f"admin:{SECRET}\n")
    own = {
        "authenticationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKeyFile": str(file),
    }
    return await scene.starts("shared", own)


async def token_for_the_other_localhost(scene: Scene) -> Outcome:
    """Listen on ``[::1]`` at the port of a daemon, and get what is meant for it."""
    port = urlsplit(scene.guarded.url).port
    url = f"http://localhost:{port}"
    words = ("status", "--url", url, "--token-file", str(scene.tokens))
    got: list[bytes] = []
    async with await asyncio.start_server(_keeping(got), "::1", port):
        if os.geteuid() == 0:
            await _where_localhost_is_two_addresses(scene, *words)
        else:
            await command(*words)
    return Outcome(any(SECRET.encode() in one for one in got), f"{len(got)} requests")


async def token_of_a_prometheus_in_the_clear(scene: Scene) -> Outcome:
    """Read on the network what an import sends, of a file that all can write."""
    file = secret_file(scene.directory / "prometheus", SECRET, 0o666)
    got: list[bytes] = []
    server = await asyncio.start_server(_keeping(got), "0.0.0.0", 0)  # by its name
    async with server:
        url = f"http://{socket.gethostname()}:{server.sockets[0].getsockname()[1]}"
        history = str(scene.directory / "imported")
        words = ("pipeline", "import", "prometheus", url, history, "--cluster", "attacked")
        await command(*words, "--token-file", str(file))
    return Outcome(any(SECRET.encode() in one for one in got), f"{len(got)} requests")


async def credentials_in_policies(scene: Scene) -> Outcome:
    """As a viewer, read the keys with which a namespace offloads its data."""
    tenant = await scene.ask(
        scene.operator, "PUT", "/admin/v2/tenants/bank", json={"allowedClusters": ["attacked"]}
    )
    policies = {
        "bundles": {"numBundles": 1},
        "offload_policies": {"s3ManagedLedgerOffloadCredentialSecret": _OFFLOAD_SECRET},
    }
    path = "/admin/v2/namespaces/bank/pay"
    made = await scene.ask(scene.operator, "PUT", path, json=policies)
    assert {tenant.status, made.status} <= {204, 409}, made.body
    reply = await scene.ask(scene.viewer, "GET", path)
    return Outcome(_OFFLOAD_SECRET.encode() in reply.body, str(reply.status))


async def move_by_the_admin_of_a_tenant(scene: Scene) -> Outcome:
    """Name the broker of one's own bundle, whatever isolation policies keep it for."""
    info = {"allowedClusters": ["attacked"], "adminRoles": ["viewer"]}
    tenant = await scene.ask(scene.operator, "PUT", "/admin/v2/tenants/loud", json=info)
    path = "/admin/v2/namespaces/loud/noise"
    made = await scene.ask(scene.viewer, "PUT", path, json={"bundles": {"numBundles": 1}})
    assert {tenant.status, made.status} <= {204, 409}, made.body
    unload = f"{path}/0x00000000_0xffffffff/unload?destinationBroker={scene.guarded.broker_id}"
    reply = await scene.ask(scene.viewer, "PUT", unload)
    return Outcome(reply.status != 403, str(reply.status))


def _keeping(
    got: list[bytes],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(4096))
        writer.write(_ANSWER)
        await writer.drain()
        writer.close()

    return serve


async def _where_localhost_is_two_addresses(scene: Scene, *words: str) -> None:
    hosts = scene.directory / "hosts"
    hosts.write_text("::1 localhost\n127.0.0.1 localhost\n", encoding="ascii")
    inner = shlex.join([sys.executable, "-m", "broker_ctl", *words])
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec {inner}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(60):
        await process.wait()
