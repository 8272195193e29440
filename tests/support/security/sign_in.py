"""A whole daemon at which clients sign in, with good credentials and each kind of wrong one."""

import base64
import datetime as dt
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker_ctl.clock import SystemClock
from broker_ctl.codec import decode_object, encode
from broker_ctl.core.model.names import Namespace
from broker_ctl.http_client import HttpClient
from broker_ctl.settings.subjects.security import AuthenticationProvider
from broker_ctl.store import paths
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.in_memory_daemon import Run
from tests.support.daemon.listening_daemon import Listening, listening_daemon
from tests.support.security.authority import LOOPBACK, Authority, Issued, issue
from tests.support.time.waiting import PATIENCE_S

NAMESPACE: Final = Namespace("t", "ns")
TOPIC: Final = f"persistent://{NAMESPACE}/x"
PARTITIONS: Final = 3
AUDIENCE: Final = "cluster-1"
SUPER_USER, CONSUMER, STRANGER = "admin", "app", "guest"

_HOUR: Final = dt.timedelta(hours=1)
_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_FOREIGN_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class Credential:
    """What a client signs in with: a token, a certificate, or nothing."""

    token: str = ""
    files: Issued | None = None


@dataclass(frozen=True)
class SignIn:
    """The daemon and the credentials.

    Attributes:
        server: the certificate of the daemon, and its authority.
        of_role: good credentials by role and kind: ``jwt``, ``certificate``.
        wrong: credentials that prove no role, by what is wrong with them. Each would be that of a
            super user.
    """

    run: Run
    ports: Mapping[str, int]
    server: Issued
    of_role: Mapping[tuple[str, str], Credential]
    wrong: Mapping[str, Credential]

    def url(self, scheme: str) -> str:
        port = {
            "http": "webServicePort",
            "https": "webServicePortTls",
            "pulsar": "lookupServicePort",
            "pulsar+ssl": "lookupServicePortTls",
        }[scheme]
        return f"{scheme}://{LOOPBACK}:{self.ports[port]}"


def signed(role: str, ends: dt.timedelta = _HOUR, *, is_foreign: bool = False, **more: str) -> str:
    """A token for a role."""
    end = dt.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, dt.UTC) + ends
    claims = {"sub": role, "aud": AUDIENCE, "exp": end, **more}
    return jwt.encode(claims, _FOREIGN_KEY if is_foreign else _KEY, "RS256")


def wrong_credentials(clients: Authority, directory: Path) -> dict[str, Credential]:
    """Each kind of wrong credential."""
    return {
        "expired token": Credential(signed(SUPER_USER, -_HOUR)),
        "token of another key": Credential(signed(SUPER_USER, is_foreign=True)),
        "token for another audience": Credential(signed(SUPER_USER, aud="cluster-2")),
        "certificate of another authority": Credential(
            files=Authority(directory / "strangers").issue(SUPER_USER)
        ),
        "expired certificate": Credential(
            files=clients.issue("late", subject=_named(), ends=-_HOUR)
        ),
        "no credential": Credential(),
    }


def _named() -> str:
    return f"CN={SUPER_USER}"


@asynccontextmanager
async def signing_in(directory: Path) -> AsyncIterator[SignIn]:
    """A daemon that admits by tokens and certificates, where only `CONSUMER` has a grant."""
    server, clients = issue(directory / "server"), Authority(directory / "clients")
    key = directory / "public.pem"
    key.write_bytes(_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    cluster_key = directory / "cluster.key"
    cluster_key.touch(mode=0o600)
    cluster_key.write_bytes(base64.b64encode(bytes(range(32))))
    around = Listening()
    around.clock = SystemClock()
    settings = {
        **server.served,
        "tlsTrustCertsFilePath": str(clients.path),
        "clusterKeyFile": str(cluster_key),
        "authenticationEnabled": "true",
        "authenticationProviders": f"{AuthenticationProvider.TOKEN},{AuthenticationProvider.TLS}",
        "authorizationEnabled": "true",
        "superUserRoles": SUPER_USER,
        # There are more wrong credentials than an address may have without a delay.
        "authenticationFailureMaxDelayMs": "0",
        "tokenPublicKey": str(key),
        "tokenAudience": AUDIENCE,
    }
    overrides = [f"{name}={value}" for name, value in settings.items()]
    of_role = {
        (role, kind): Credential(signed(role))
        if kind == "jwt"
        else Credential(files=clients.issue(role))
        for role in (SUPER_USER, CONSUMER, STRANGER)
        for kind in ("jwt", "certificate")
    }
    async with listening_daemon(*overrides, around=around) as (run, ports):
        found = SignIn(run, ports, server, of_role, wrong_credentials(clients, directory))
        await _create_topic(found)
        yield found


async def _create_topic(found: SignIn) -> None:
    token, url = found.of_role[SUPER_USER, "jwt"].token, found.url("http")
    async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        await make_tenant(http, url, NAMESPACE.tenant)
        base = f"{url}/admin/v2"
        bundles = {"bundles": {"numBundles": 2}}
        made = await http.request("PUT", f"{base}/namespaces/{NAMESPACE}", json=bundles)
        assert made.status == 204, made.body
        topic = f"{base}/{TOPIC.replace('://', '/')}/partitions"
        made = await http.request("PUT", topic, json=PARTITIONS)
        assert made.status == 204, made.body
    store, path = found.run.around.store, paths.policies(NAMESPACE)
    node = await store.get(path)
    assert node is not None
    # As Pulsar's admin stores it.
    grants = {"auth_policies": {"namespace_auth": {CONSUMER: ["consume"]}}}
    await store.set(path, encode({**decode_object(node.data), **grants}), node.stat.version)
