"""Checks every file of secrets and certificates that a configuration names."""

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.keys import identity_of
from broker_ctl.daemon.wiring.security import build_authentication, newest_cluster_keys
from broker_ctl.daemon.wiring.stores import tls_context
from broker_ctl.daemon.wiring.tls import (
    PemFile,
    client_context,
    cluster_context,
    peer_context,
    replication_contexts,
    server_context,
)
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.security.certificates.peer_certificate import replica_broker_uri
from broker_ctl.security.guarded_files import read_guarded, read_secret
from broker_ctl.security.key_source import KeySource
from broker_ctl.security.rotation.reloadable import expires_at_s
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import is_hash, token_lines
from broker_ctl.settings.conditions import OWN_BROKER, REPLICATION_TLS
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Guard

# What a check has found out about one file.


class SecretState(StrEnum):
    """The worst of what was found."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class CheckedFile:
    """A file, by the setting that names it.

    Attributes:
        mode: its permissions, such as ``0600``; empty: it cannot be read.
        ends_at_s: Unix time at which the first certificate or the token in it ends; None: never.
        errors: a daemon would not start with it, or connections with it would fail.
        warnings: what an operator should change.
    """

    key: str
    path: Path
    mode: str = ""
    ends_at_s: float | None = None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def state(self) -> SecretState:
        """See `State`."""
        if self.errors:
            return SecretState.ERROR
        return SecretState.WARNING if self.warnings else SecretState.OK

    def days_left(self, now_s: float) -> float | None:
        """Days until its end, negative after it; None: it has none."""
        return None if self.ends_at_s is None else (self.ends_at_s - now_s) / 86_400


# What is weak, or ends soon, in the content of one file.


_MIN_RSA_BITS: Final = 2048
_MIN_EC_BITS: Final = 256
_WEAK_HASHES: Final = frozenset({"md5", "sha1"})
_MIN_SECRET: Final = 32
_MIN_PASSWORD: Final = 16
_MIN_DISTINCT: Final = 10
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_PASSWORDS: Final = frozenset({"zookeeperAuthDigestFile", "zookeeperSaslDigestFile"})
_SECRETS: Final = frozenset({"dataPlaneSecretFile", "pulsarTokenFile"})


def check_content(file: CheckedFile, now_s: float, warn_days: float) -> None:
    """Read the file, and note what is wrong with it alone."""
    content = _read(file)
    if content is None:
        return
    file.mode = f"{file.path.stat().st_mode & 0o7777:04o}"
    file.ends_at_s = expires_at_s(content)
    days = file.days_left(now_s)
    if days is not None and days <= 0:
        file.errors.append(f"has ended {-days:.0f} days ago")
    elif days is not None and days < warn_days:
        file.warnings.append(f"ends in {days:.0f} days")
    if _CERTIFICATE in content:
        _check_certificates(file, content, now_s)
    elif file.key == "tokenSecretKeyFile":
        file.warnings += _weak_tokens(content.decode(errors="replace"))
    elif file.key in _PASSWORDS and any(
        _is_weak(line.strip().partition(b":")[2], _MIN_PASSWORD)
        for line in content.strip().splitlines()
    ):
        file.warnings.append(f"the password has fewer than {_MIN_PASSWORD} random characters")
    elif file.key in _SECRETS and _is_weak(content.strip(), _MIN_SECRET):
        file.warnings.append(f"has fewer than {_MIN_SECRET} random characters")


def _read(file: CheckedFile) -> bytes | None:
    guard = DECLARATIONS[file.key.partition("/")[0]].setting.guard
    try:
        return read_guarded(file.path, file.warnings.append if guard is Guard.SECRET else None)
    except OSError as error:
        file.errors.append(error.strerror or str(error))
        return None


def _check_certificates(file: CheckedFile, content: bytes, now_s: float) -> None:
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        file.errors.append("holds a malformed certificate")
        return
    for certificate in certificates:
        name = certificate.subject.rfc4514_string() or "without a subject"
        if certificate.not_valid_before_utc.timestamp() > now_s:
            file.errors.append(f"certificate {name}: is not valid yet")
        file.errors += [f"certificate {name}: {text}" for text in _weak_keys(certificate)]
        used = certificate.signature_hash_algorithm
        is_root = certificate.issuer == certificate.subject
        if used is not None and used.name in _WEAK_HASHES and not is_root:
            file.warnings.append(f"certificate {name}: is signed with {used.name}")


def _weak_keys(certificate: x509.Certificate) -> Iterator[str]:
    key = certificate.public_key()
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        yield f"its RSA key has {key.key_size} bits, and {_MIN_RSA_BITS} are the least"
    if isinstance(key, EllipticCurvePublicKey) and key.key_size < _MIN_EC_BITS:
        yield f"its key has {key.key_size} bits, and {_MIN_EC_BITS} are the least"


def _weak_tokens(text: str) -> Iterator[str]:
    for number, role, secret in token_lines(text):
        if not is_hash(secret) and _is_weak(secret.encode(), _MIN_SECRET):
            yield (
                f"line {number}: the token of {role or 'no role'} has fewer than {_MIN_SECRET} "
                "random characters"
            )


def _is_weak(secret: bytes, least: int) -> bool:
    return len(secret) < least or len(set(secret)) < _MIN_DISTINCT


# A TLS handshake in memory: whether two sides accept each other, as OpenSSL judges it.


# A handshake has two flights each way; renegotiation is not used.
_MAX_ROUNDS: Final = 8


def handshake_error(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Why the handshake of a client that calls ``host`` fails; empty: it succeeds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(_MAX_ROUNDS):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason or str(error)
        if not waiting:
            return ""
    return "the handshake does not end"


# Checks every file of secrets and certificates that a configuration names and a daemon reads.


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
        lambda: replication_contexts(settings),
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
