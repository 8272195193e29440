"""Checks every file of secrets and certificates that a configuration names and a daemon reads."""

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509

from broker_ctl.clock import Clock
from broker_ctl.daemon.secrets.checked_file import CheckedFile
from broker_ctl.daemon.secrets.contents import check_content
from broker_ctl.daemon.secrets.handshake import handshake_error
from broker_ctl.daemon.wiring.security.authentication import build_authentication
from broker_ctl.daemon.wiring.security.cluster_keys import newest_cluster_keys
from broker_ctl.daemon.wiring.security.store_identity import identity_of
from broker_ctl.daemon.wiring.stores import tls_context
from broker_ctl.daemon.wiring.tls import (
    PemFile,
    client_context,
    cluster_context,
    peer_context,
    replication_tls,
    server_context,
)
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.security.certificates.spiffe import replica_broker_uri
from broker_ctl.security.guarded_files import read_secret
from broker_ctl.security.key_source import KeySource
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import OWN_BROKER, REPLICATION_TLS
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import DECLARATIONS, Settings

_SERVED: Final = "tlsCertificateFilePath"
_PEERS_TRUST: Final = "brokerClientTrustCertsFilePath"
_SHOWN: Final = "brokerClientCertificateFilePath"
_TRUST: Final = "tlsTrustCertsFilePath"
# How errors of the client's context begin, which name no file.
_TO_ZOOKEEPER: Final = "TLS to ZooKeeper"


def check_secrets(settings: Settings, clock: Clock, warn_days: float) -> Sequence[CheckedFile]:
    """All files that a daemon with these settings reads, in the order of the checks.

    Files are read as at a start, and certificates verified by handshakes in memory; no connection
    is made. With less than ``warn_days`` days left a certificate or token is a warning.
    """
    files = {key: CheckedFile(key, path) for key, path in _paths(settings)}
    for file in files.values():
        check_content(file, clock.wall_ms() / 1000, warn_days)
    if files and not any(file.errors for file in files.values()):
        _build_as_at_start(settings, clock, files)
    if not any(file.errors for file in files.values()):
        _verify_served(settings, files)
        _verify_shown(settings, files)
        _verify_number(settings, files)
    return tuple(files.values())


def _paths(settings: Settings) -> Iterator[tuple[str, Path]]:
    for key, declaration in DECLARATIONS.items():
        value = settings.value(key) if declaration.setting.guard is not None else None
        path = value.path if isinstance(value, KeySource) else value
        if not isinstance(path, Path) or not is_used(settings, key):
            continue
        if declaration.setting.files:
            yield from ((f"{key}/{name}", path / name) for name in declaration.setting.files)
        else:
            yield key, path


def _build_as_at_start(settings: Settings, clock: Clock, files: Mapping[str, CheckedFile]) -> None:
    """Note what would end a start: pairs that do not match, and files that hold something else."""

    def authenticate() -> object:
        authentication = build_authentication(settings, clock, Reloader())
        return newest_cluster_keys(settings, authentication, Reloader())

    builders: tuple[Callable[[], object], ...] = (
        lambda: server_context(settings),
        lambda: replication_tls(settings),
        lambda: peer_context(settings),
        lambda: cluster_context(settings),
        lambda: tls_context(settings),
        lambda: identity_of(settings),
        authenticate,
        *(_reads(files, key) for key in ("dataPlaneSecretFile", "pulsarTokenFile")),
    )
    for build in builders:
        try:
            build()
        except (StartError, SettingsError) as error:
            _note(files, str(error))


def _reads(files: Mapping[str, CheckedFile], key: str) -> Callable[[], object]:
    return lambda: read_secret(files[key].path, key) if key in files else None


def _note(files: Mapping[str, CheckedFile], text: str) -> None:
    """Add an error to the file that it begins with; to the first one if it names none."""
    named = [
        file for key, file in files.items() if text.startswith((f"{key}=", f"{key}:", f"{key},"))
    ]
    if not named and text.startswith(_TO_ZOOKEEPER):
        named = [file for key, file in files.items() if key.startswith("zookeeperTlsC")]
    file = named[-1] if named else next(iter(files.values()))
    text = text.removeprefix(f"{file.key}={file.path}: ").removeprefix(f"{file.key}: ")
    if text not in file.errors:
        file.errors.append(text)


def _verify_served(settings: Settings, files: Mapping[str, CheckedFile]) -> None:
    """Whether others that call this daemon at its advertised addresses accept its certificate."""
    server = server_context(settings)
    if server is None or _SERVED not in files:
        return
    server.verify_mode = ssl.CERT_NONE
    trust = files.get(_PEERS_TRUST)
    client = ssl.create_default_context()
    if trust is not None:
        made = client_context(PemFile(_PEERS_TRUST, trust.path), None)
        assert made is not None, "there is a file"
        client = made
    found = files[_SERVED].warnings if trust is None else files[_SERVED].errors
    whose = "the system's authorities" if trust is None else _PEERS_TRUST
    for host in _advertised_hosts(settings):
        if reason := handshake_error(server, client, host):
            found.append(f"is not accepted for {host} by {whose}: {reason}")


def _advertised_hosts(settings: Settings) -> Iterator[str]:
    broker = settings.broker
    listeners = (listener.address.host for listener in broker.advertised_listeners)
    yield from dict.fromkeys((broker.advertised_host, *listeners))


def _verify_shown(settings: Settings, files: Mapping[str, CheckedFile]) -> None:
    """Whether a broker with the same settings accepts the certificate that this one shows."""
    server, client = server_context(settings), peer_context(settings)
    if server is None or client is None or _SHOWN not in files or _TRUST not in files:
        return
    if not OWN_BROKER.holds(settings):
        return
    server.verify_mode = ssl.CERT_REQUIRED
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    if reason := handshake_error(server, client, settings.broker.advertised_host):
        files[_SHOWN].errors.append(f"is not accepted by {_TRUST}: {reason}")


def _verify_number(settings: Settings, files: Mapping[str, CheckedFile]) -> None:
    """Whether the certificate proves the number of this broker on the replication port."""
    broker = settings.broker
    if not REPLICATION_TLS.holds(settings) or broker.numeric_id is None:
        return
    uri = replica_broker_uri(broker.cluster_name, broker.numeric_id)
    first = x509.load_pem_x509_certificates(files[_SERVED].path.read_bytes())[0]
    try:
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if uri not in uris:
        files[_SERVED].errors.append(f"does not name this broker: the URI {uri} is missing")
