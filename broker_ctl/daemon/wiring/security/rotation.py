"""Certificates and secrets that are replaced while the daemon runs, from the settings."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

from broker_ctl.daemon.wiring.tls import (
    PemFile,
    client_context,
    cluster_context,
    peer_context,
    replication_tls,
    server_context,
)
from broker_ctl.dataplane.replication.tls import ReplicationTls
from broker_ctl.instruments.kinds import Labels
from broker_ctl.instruments.secrets import SecretInstruments
from broker_ctl.security.guarded_files import read_secret
from broker_ctl.security.key_source import KeySource
from broker_ctl.security.rotation.expiry import Life
from broker_ctl.security.rotation.newest_secret import NewestSecret
from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.rotation.tls_context import ReloadableContext
from broker_ctl.settings.root import Settings

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


def rotating_replication_tls(settings: Settings, reloader: Reloader) -> ReplicationTls | None:
    """As `replication_tls`, with the newest certificates in each handshake."""
    newest = reloadable(
        settings, reloader, "replication-tls", _SERVER, lambda: replication_tls(settings)
    )
    if newest is None:
        return None
    return ReplicationTls(
        newest.current.cluster,
        ReloadableContext(lambda: newest.current.serving),
        ReloadableContext(lambda: newest.current.calling),
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
