"""Keys and secrets of this daemon, replaced while it runs."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

from broker_ctl.daemon.wiring.tls import (
    PemFile,
    client_context,
    cluster_context,
    peer_context,
    replication_contexts,
    server_context,
)
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.instruments.clients import SecretInstruments
from broker_ctl.instruments.kinds import Labels
from broker_ctl.security.guarded_files import read_secret
from broker_ctl.security.key_source import KeySource
from broker_ctl.security.rotation.reloadable import (
    Life,
    NewestSecret,
    Reloadable,
    ReloadableContext,
)
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import HAS_IDENTITY
from broker_ctl.settings.root import Settings
from broker_ctl.store.zookeeper.access import Identity, ProvenIdentity
from broker_ctl.store.zookeeper.connection import Connection

# Certificates and secrets that are replaced while the daemon runs, from the settings.


T = TypeVar("T")

# Pulsar's 0, at each new connection, would let clients make the daemon read files.
_MIN_PERIOD_S: Final = 1.0
_REVOCATIONS: Final = "tlsRevocationListFile"
_SERVER: Final = (
    "tlsCertificateFilePath",
    "tlsKeyFilePath",
    "tlsTrustCertsFilePath",
    _REVOCATIONS,
)
_PEERS: Final = (
    "brokerClientTrustCertsFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientKeyFilePath",
    _REVOCATIONS,
)
_DATAPLANE: Final = "dataplane-secret"
_ISSUER_TRUST: Final = "openIDTokenIssuerTrustCertsFilePath"
_PULSAR: Final = (
    "pulsarTlsTrustCertsFilePath",
    "pulsarTlsCertificateFilePath",
    "pulsarTlsKeyFilePath",
)

# What has an end by which it must be replaced.
_ENDING: Final = (
    *_SERVER,
    *_PEERS,
    *_PULSAR,
    "pulsarTokenFile",
    _ISSUER_TRUST,
    "zookeeperTlsCaFile",
    "zookeeperTlsCertFile",
)


def reloadable(
    settings: Settings,
    reloader: Reloader,
    name: str,
    keys: tuple[str, ...],
    build: Callable[[], T | None],
) -> Reloadable[T] | None:
    """What ``build`` makes of the files that these settings name, reloaded when they change.

    None if ``build`` makes nothing, which depends on the settings alone.

    Raises:
        StartError, SettingsError: a file that cannot be read, or does not hold what it should.
    """
    made = Reloadable(name, _files(settings, keys), build, _period_s(settings))
    if made.current is None:
        return None
    return reloader.add(cast("Reloadable[T]", made))


def newest_context(
    settings: Settings,
    reloader: Reloader,
    name: str,
    keys: tuple[str, ...],
    build: Callable[[], ssl.SSLContext | None],
) -> ssl.SSLContext | None:
    """A context whose handshakes are those of the newest one that ``build`` could make.

    None if ``build`` makes none, which depends on the settings alone.

    Raises:
        StartError, SettingsError: a file that cannot be read, or does not hold what it should.
    """
    newest = reloadable(settings, reloader, name, keys, build)
    return None if newest is None else ReloadableContext(lambda: newest.current)


def server_tls(settings: Settings, reloader: Reloader) -> ssl.SSLContext | None:
    """As `server_context`, with the newest certificates in each handshake."""
    return newest_context(
        settings, reloader, "server-tls", _SERVER, lambda: server_context(settings)
    )


def peer_tls(settings: Settings, reloader: Reloader) -> ssl.SSLContext | None:
    """As `peer_context`, with the newest certificates in each handshake."""
    return newest_context(settings, reloader, "peer-tls", _PEERS, lambda: peer_context(settings))


def cluster_tls(settings: Settings, reloader: Reloader) -> ssl.SSLContext | None:
    """As `cluster_context`, with the newest certificates in each handshake."""
    return newest_context(
        settings, reloader, "pulsar-tls", _PULSAR, lambda: cluster_context(settings)
    )


def pulsar_token(settings: Settings, reloader: Reloader) -> NewestSecret | None:
    """The newest token for the balanced Pulsar cluster; None: it needs none.

    Raises:
        StartError: the file cannot be read, or is not a secret.
    """
    file = settings.pulsar.token_file
    newest = reloadable(
        settings,
        reloader,
        "pulsar-token",
        ("pulsarTokenFile",),
        lambda: None if file is None else read_secret(file, "pulsarTokenFile"),
    )
    return None if newest is None else NewestSecret(newest)


def dataplane_secret(settings: Settings, reloader: Reloader) -> NewestSecret | None:
    """The newest secret that is shared with the broker process; None: there is none.

    Raises:
        StartError: the file cannot be read, or is not a secret.
    """
    file = settings.dataplane.secret_file
    if file is None:
        return None
    # Calls in both directions have the same one at any moment.
    newest = next((one for one in reloader if one.name == _DATAPLANE), None)
    if newest is None:
        newest = reloadable(
            settings,
            reloader,
            _DATAPLANE,
            ("dataPlaneSecretFile",),
            lambda: read_secret(file, "dataPlaneSecretFile"),
        )
    return None if newest is None else NewestSecret(newest)


def issuer_tls(settings: Settings, reloader: Reloader) -> ssl.SSLContext | None:
    """For connections to issuers of tokens, with the newest trust file in each handshake.

    None: the system's authorities count.

    Raises:
        SettingsError: certificates that cannot be read.
    """
    file = settings.openid.trust_certs_file
    trusted = None if file is None else PemFile(_ISSUER_TRUST, file)
    return newest_context(
        settings, reloader, "issuer-tls", (_ISSUER_TRUST,), lambda: client_context(trusted, None)
    )


def rotating_replication_contexts(
    settings: Settings, reloader: Reloader
) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """As `replication_contexts`, with the newest certificates in each handshake."""
    newest = reloadable(
        settings, reloader, "replication-tls", _SERVER, lambda: replication_contexts(settings)
    )
    if newest is None:
        return None
    return (
        ReloadableContext(lambda: newest.current[0]),
        ReloadableContext(lambda: newest.current[1]),
    )


def bind_secrets(instruments: SecretInstruments, settings: Settings, reloader: Reloader) -> None:
    """Bind the instruments of what is reloaded."""

    def reloads() -> Mapping[Labels, float]:
        counts = [(one.name, one.reloads, one.failures) for one in reloader]
        loaded: dict[Labels, float] = {(name, "success"): count for name, count, _ in counts}
        return loaded | {(name, "failure"): count for name, _, count in counts}

    def lives() -> Iterator[tuple[str, Life]]:
        found = {path: life for one in reloader for path, life in one.lives.items()}
        for key in dict.fromkeys(_ENDING):
            yield from ((key, found[path]) for path in _files(settings, (key,)) if path in found)

    def lists() -> Mapping[str, Life]:
        return {key: life for key, life in lives() if life.issued_at_s is not None}

    instruments.expiry.bind(
        lambda: {(key,): life.ends_at_s for key, life in lives() if life.issued_at_s is None}
    )
    instruments.lists_end.bind(lambda: {(key,): life.ends_at_s for key, life in lists().items()})
    instruments.lists_issued.bind(
        lambda: {(key,): life.issued_at_s or 0.0 for key, life in lists().items()}
    )
    instruments.reloads.bind(reloads)
    instruments.is_failing.bind(lambda: {(one.name,): float(one.is_failing) for one in reloader})


def _period_s(settings: Settings) -> float:
    return max(_MIN_PERIOD_S, float(settings.tls.refresh_check_s))


def _files(settings: Settings, keys: tuple[str, ...]) -> tuple[Path, ...]:
    values = [settings.value(key) for key in keys]
    paths = [value.path if isinstance(value, KeySource) else value for value in values]
    return tuple(path for path in paths if isinstance(path, Path))


# Who this daemon is to the ZooKeeper servers, with the newest passwords.


_FILES: Final = ("zookeeperAuthDigestFile", "zookeeperSaslDigestFile")
# The old one and the new one, and another change that begins before the end of the first.
_MOST_DIGESTS: Final = 4


class NewestIdentity:
    """Each new connection proves the newest identity; those that exist keep theirs."""

    def __init__(self, newest: Reloadable[Identity]) -> None:
        self._newest = newest
        self._connections: list[Callable[[str], None]] = []

    def listen(self, drop: Callable[[str], None]) -> None:
        """See `Identity.listen`."""
        self._connections.append(drop)

    def prove_again(self) -> None:
        """Drop the connections; their sessions come back on new ones at once."""
        for drop in self._connections:
            drop("zookeeperAuthDigestFile names other users")

    @property
    def newest(self) -> Identity:
        """The identity in use."""
        return self._newest.current

    @property
    def is_known(self) -> bool:
        """See `Identity.is_known`."""
        return self.newest.is_known

    async def prove(self, connection: Connection) -> None:
        """See `Identity.prove`."""
        await self.newest.prove(connection)


def newest_identity(settings: Settings, reloader: Reloader) -> ProvenIdentity:
    """The identity by the newest files of passwords.

    Raises:
        StartError: a file that cannot be read, is not a secret, or has no user:password.
    """
    zookeeper = settings.zookeeper
    if zookeeper.auth_digest_file is None and zookeeper.sasl_digest_file is None:
        return identity_of(settings)
    in_use: list[Identity] = []

    def load() -> Identity:
        found = identity_of(settings)
        if in_use and HAS_IDENTITY.holds(settings) and zookeeper.sets_acl:
            _require_own_nodes(in_use[0], found)
        return found

    newest = reloadable(settings, reloader, "zookeeper-passwords", _FILES, load)
    assert newest is not None, "there is a file"
    in_use[:] = [newest.current]
    identity = NewestIdentity(newest)

    def use(replaced: Identity) -> None:
        before, in_use[:] = in_use[0], [replaced]
        if before.digests != replaced.digests:
            identity.prove_again()

    newest.listen(use)
    return identity


def _require_own_nodes(before: Identity, after: Identity) -> None:
    """Refuse an identity to which the nodes of this daemon do not belong.

    Raises:
        SettingsError: it shares nothing with the one in use.
    """
    if before.digests and not set(before.digests) & set(after.digests):
        raise SettingsError(
            "zookeeperAuthDigestFile: the access control lists of the daemon's nodes name the old "
            "password, so a new one alone would lose them; have the file name both, each on a line "
            "of its own, until broker-ctl zookeeper secure --all has given the nodes to both"
        )
    if before.sasl.partition(b":")[0] != after.sasl.partition(b":")[0]:
        raise SettingsError(
            "zookeeperSaslDigestFile: the daemon's nodes belong to the user of before; only the "
            "password can change while it runs"
        )


def identity_of(settings: Settings) -> Identity:
    """Who this daemon is to the ZooKeeper servers.

    Raises:
        StartError: a file that cannot be read, is not a secret, or has no user:password.
    """
    zookeeper = settings.zookeeper
    return Identity(
        digests=_users("zookeeperAuthDigestFile", zookeeper.auth_digest_file, is_one_line=False),
        sasl=b"".join(_users("zookeeperSaslDigestFile", zookeeper.sasl_digest_file)),
        has_certificate=zookeeper.tls_enabled and zookeeper.tls_cert_file is not None,
    )


def _users(key: str, path: Path | None, *, is_one_line: bool = True) -> tuple[bytes, ...]:
    if path is None:
        return ()
    lines = read_secret(path, key, is_one_line=is_one_line).splitlines()
    found = tuple(filter(None, (line.strip() for line in lines)))
    if any(b":" not in line for line in found):
        raise StartError(f"{key}={path}: each line must contain user:password")
    if len(found) > _MOST_DIGESTS:
        raise StartError(f"{key}={path}: has more than {_MOST_DIGESTS} lines")
    return found
