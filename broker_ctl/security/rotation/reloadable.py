"""Values that are made of files, and made again when these change: keys, secrets, TLS contexts."""

import errno
import hashlib
import logging
import os
import re
import socket
import ssl
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from broker_ctl.errors import BrokerCtlError
from broker_ctl.security.authentication import Evidence, Principal, Provider
from broker_ctl.security.cluster_key import ClusterKeys

log = logging.getLogger(__name__)

# When the certificate, the revocation list or the token in a file ends.
#
# jwt and cryptography are imported only where there is one: without either, a daemon needs
# neither, and starts sooner.


_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_REVOCATIONS: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """Of the certificate, revocation list or token in a file that ends first.

    Attributes:
        ends_at_s: Unix time.
        issued_at_s: the same, of a revocation list; None: it is none.
    """

    ends_at_s: float
    issued_at_s: float | None = None


def expires_at_s(content: bytes) -> float | None:
    """As `life_of`: only its end."""
    life = life_of(content)
    return None if life is None else life.ends_at_s


def life_of(content: bytes) -> Life | None:
    """Of the first certificate or revocation list (PEM), or of the token.

    None: it is none of these, or has no end. The signature of a JSON Web Token is not verified.
    """
    if lists := _REVOCATIONS.findall(content):
        return _first_list(lists)
    ends_at_s = _first_end_s(content) if _CERTIFICATE in content else _end_of_token_s(content)
    return None if ends_at_s is None else Life(ends_at_s)


def _end_of_token_s(content: bytes) -> float | None:
    import jwt

    try:
        claims = jwt.decode(
            content.strip(), options={"verify_signature": False, "verify_exp": False}
        )
        ends = claims.get("exp")
        return None if ends is None else float(ends)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        return None


def _first_end_s(content: bytes) -> float | None:
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        return None
    return min(one.not_valid_after_utc.timestamp() for one in certificates)


def _first_list(lists: list[bytes]) -> Life | None:
    from cryptography import x509

    try:
        read = [x509.load_pem_x509_crl(one) for one in lists]
    except ValueError:
        return None
    lives = (
        Life(one.next_update_utc.timestamp(), one.last_update_utc.timestamp())
        for one in read
        if one.next_update_utc is not None
    )
    return min(lives, default=None)


# What files contain, in few bytes, to notice that they have changed.


_MAX_BYTES: Final = 1 << 20


def fingerprint(paths: Iterable[Path]) -> bytes | None:
    """SHA-256 over the contents of the files, in their order; None: one can be read only once.

    Contents and not times: a link that Kubernetes swaps often leads to the same contents, and two
    writes within one tick of a file system's clock have the same time and perhaps the same size. A
    file that cannot be read counts by its error.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            # Opening a pipe would wait for its writer, and reading would take what is in it.
            if not stat.S_ISREG(path.stat().st_mode):
                return None
            content = _read(path)
        except OSError as error:
            content = f"error {error.errno}".encode()
        digest.update(b"%d:%b" % (len(content), content))
    return digest.digest()


def _read(path: Path) -> bytes:
    # Not to wait for a writer where the file became a pipe after the look at it.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


# A value that is made of files, and made again when they change.
#
# The new value replaces the old one only if it could be loaded whole: files that are missing, half
# written, or do not belong together leave the old one in use. It is tried again at each check.


T = TypeVar("T")

# Files that change during every one of these attempts are left for the next check.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Attempt(Generic[T]):
    """What came of reading changed files.

    Attributes:
        fingerprint: of what was read.
        value: None: it could not be loaded, or is the one in use.
        error: why it could not be loaded; empty: it could.
        lives: of the value; see `Reloadable`.
    """

    fingerprint: bytes
    value: T | None = None
    error: str = ""
    lives: Mapping[Path, Life] = field(default_factory=dict)


class Reloadable(Generic[T]):
    """The newest value that could be loaded.

    Args:
        name: of what it is, in the log and in metrics.
        paths: the files that `load` reads.
        load: makes the value; runs in a thread, except for the first time.
        period_s: time between two checks of the files.

    Attributes:
        current: the value in use.
        lives: by file, of what ends first in it.
        reloads: how often it was replaced.
        failures: how many different contents of the files could not be loaded.
        is_failing: whether the files of the latest check could not be loaded.

    Raises:
        BrokerCtlError: what `load` raises; the first value must be there.
    """

    def __init__(
        self, name: str, paths: Sequence[Path], load: Callable[[], T], period_s: float
    ) -> None:
        self.name: Final = name
        self.paths: Final = tuple(paths)
        self.period_s: Final = period_s
        self.reloads = 0
        self.failures = 0
        self._load = load
        # Before the load: what changes in between is noticed by the first check.
        self._loaded = fingerprint(self.paths)
        self._failed: tuple[bytes, str] | None = None
        self._listeners: list[Callable[[T], None]] = []
        self.current: T = load()
        self.lives = _lives_of(self.paths)

    @property
    def is_failing(self) -> bool:
        """See the class."""
        return self._failed is not None

    @property
    def is_watchable(self) -> bool:
        """Whether the files can be read again: not so a pipe."""
        return self._loaded is not None

    def listen(self, listener: Callable[[T], None]) -> None:
        """Call ``listener`` in the event loop with each value that replaces another."""
        self._listeners.append(listener)

    def read(self) -> Attempt[T] | None:
        """Read the files if they have changed or could not be loaded; None: nothing to settle.

        Blocks, and changes nothing; for a thread.
        """
        for _ in range(_ATTEMPTS):
            found = fingerprint(self.paths)
            if found is None:
                return None
            if found == self._loaded:
                return Attempt(found) if self.is_failing else None
            try:
                value = self._load()
                attempt = Attempt(found, value, lives=_lives_of(self.paths))
            except (BrokerCtlError, OSError, ValueError) as error:
                attempt = Attempt(found, error=str(error) or type(error).__name__)
            # What was loaded may be of files that were being replaced one by one.
            if fingerprint(self.paths) == found:
                return attempt
        return None

    def settle(self, attempt: Attempt[T]) -> None:
        """Use what was read, or say why not."""
        if attempt.error:
            failed = attempt.fingerprint, attempt.error
            if failed != self._failed:
                self._failed = failed
                self.failures += 1
                log.error("%s: the changed files are not used: %s", self.name, attempt.error)
            return
        self._failed = None
        if attempt.value is None:
            log.info("%s: the files are again those in use", self.name)
            return
        self._loaded = attempt.fingerprint
        self.current, self.lives = attempt.value, attempt.lives
        self.reloads += 1
        log.info("%s: the changed files are in use now", self.name)
        for listener in self._listeners:
            listener(attempt.value)


def _lives_of(paths: Sequence[Path]) -> Mapping[Path, Life]:
    found: dict[Path, Life] = {}
    for path in paths:
        # What cannot be read is found by the load; a pipe was read by it.
        if path.is_file() and (life := life_of(path.read_bytes())) is not None:
            found[path] = life
    return found


# The cluster's keys, replaced when their file changes.


_MAX_KEPT: Final = 16


class NewestKeys:
    """Those of the newest file alone: a removed key proves nothing from then on."""

    def __init__(self, newest: Reloadable[ClusterKeys]) -> None:
        self._newest = newest

    @property
    def names(self) -> tuple[str, ...]:
        """See `ClusterKeys.names`."""
        return self._newest.current.names

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        return self._newest.current.sign(context, message)

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """See `ClusterKeys.verify`."""
        return self._newest.current.verify(context, message, signature)

    def kept(self) -> "KeptKeys":
        """The same for signatures that last."""
        return KeptKeys(self._newest)


class KeptKeys:
    """The newest ones sign; all that were in use since the start of this process verify.

    Registrations and election nodes live as long as their sessions, and keep the signature that
    they were written with: without its key, a broker that lives would count as gone.
    """

    def __init__(self, newest: Reloadable[ClusterKeys]) -> None:
        self._newest = newest
        self._known = [newest.current]
        newest.listen(self._keep)

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        return self._newest.current.sign(context, message)

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """See `ClusterKeys.verify`."""
        return any(keys.verify(context, message, signature) for keys in self._known)

    def _keep(self, keys: ClusterKeys) -> None:
        self._known = [keys, *(known for known in self._known if known != keys)][:_MAX_KEPT]


# A secret that is replaced when its file changes.


class NewestSecret:
    """Returns the newest one when it is called."""

    def __init__(self, newest: Reloadable[bytes]) -> None:
        self._newest = newest

    def __call__(self) -> bytes:
        """The secret in use."""
        return self._newest.current


# A provider of principals that is replaced when its files change.


class NewestProvider:
    """Passes each client to ``newest()``."""

    def __init__(self, newest: Callable[[], Provider]) -> None:
        self._newest = newest

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        return self._newest().authenticate(evidence)


# A TLS context whose handshakes use the newest certificates.
#
# Servers and clients keep the context that they are given. Each handshake of this one is made by
# the context that is current then; connections that exist keep theirs. A new context also has new
# keys for session tickets: nobody resumes a session of certificates that are not trusted any
# more.


class ReloadableContext(ssl.SSLContext):
    """Delegates each handshake to ``newest()``, which must always be for the same side."""

    newest: Callable[[], ssl.SSLContext]

    def __new__(cls, newest: Callable[[], ssl.SSLContext]) -> Self:
        """A context of its own kind; it has no certificates, and is used for no handshake."""
        made = super().__new__(cls, newest().protocol)
        made.newest = newest
        return made

    def __init__(self, newest: Callable[[], ssl.SSLContext]) -> None:
        """See `__new__`."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`; asyncio and uvloop begin each handshake with it."""
        return self.newest().wrap_bio(*arguments, **named)

    def wrap_socket(self, sock: socket.socket, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """See `ssl.SSLContext.wrap_socket`."""
        return self.newest().wrap_socket(sock, *arguments, **named)
