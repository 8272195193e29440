"""What is weak, or ends soon, in the content of one file."""

from collections.abc import Iterator
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from broker_ctl.daemon.secrets.checked_file import CheckedFile
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.rotation.expiry import expires_at_s
from broker_ctl.security.static_tokens import is_hash, token_lines
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Guard

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
