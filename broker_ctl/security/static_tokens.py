"""Static bearer tokens: those of roles, and the one that a daemon draws for its own machine."""

import errno
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from broker_ctl.addresses import reached_at
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.security.authentication import LOOPBACK_ROLE, Evidence, Principal, Proof
from broker_ctl.security.guarded_files import require_trusted

# Static bearer tokens and the roles behind them.
#
# The secret file has one ``role:secret`` a line; empty lines and lines that begin with ``#`` are
# skipped. A bearer token is the secret alone. In place of a secret, a line may have its hash:
# ``role:$sha256$`` and 64 hexadecimal digits. A reader of the file then has no token: SHA-256 is
# as good as a slow hash for a token that is too long to guess, and costs an unknown client's
# request next to nothing.


_MIN_LENGTH: Final = 16
HASH_PREFIX: Final = "$sha256$"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
# Of a token that is hashed: a shorter one, or one of few characters, could be guessed from there.
_MIN_HASHED_LENGTH: Final = 32
_MIN_DISTINCT: Final = 10


def token_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number, role and token of each line of a secret file.

    The role ends at the first colon: a token may contain further ones. A line without a colon is
    a token alone, and its role is empty.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            role, colon, token = line.partition(":")
            yield (number, role.strip(), token.strip()) if colon else (number, "", line.strip())


@dataclass(frozen=True, slots=True)
class StaticTokens:
    """Roles by token.

    Attributes:
        secrets: role and token of each line with a token in the clear.
        digests: role and SHA-256 of each line.
    """

    secrets: tuple[tuple[str, bytes], ...] = field(repr=False)
    digests: tuple[tuple[str, bytes], ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of a secret file.

        Raises:
            SettingsError: a malformed line or a secret of two roles, by the number of the line
                and without its content.
        """
        secrets: list[tuple[str, bytes]] = []
        digests: list[tuple[str, bytes]] = []
        owners: dict[bytes, tuple[str, int]] = {}
        for number, role, secret in token_lines(text):
            is_plain = secret.isascii() and secret.isprintable() and " " not in secret
            if not role or not is_plain or len(secret) < _MIN_LENGTH:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: role:secret expected, the secret with "
                    f"at least {_MIN_LENGTH} printable ASCII characters and no blanks"
                )
            digest = _digest(secret, number)
            owner, earlier = owners.setdefault(digest, (role, number))
            if owner != role:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: has the secret of line {earlier}, of "
                    "another role; each role needs a secret of its own"
                )
            digests.append((role, digest))
            if not is_hash(secret):
                secrets.append((role, secret.encode()))
        return cls(tuple(secrets), tuple(digests))

    def of_roles(self, roles: Collection[str]) -> Iterator[bytes]:
        """The tokens of these roles that are in the clear, in the order of the file."""
        return (secret for role, secret in self.secrets if role in roles)

    def first_of(self, roles: Collection[str]) -> str:
        """The first token of one of these roles; empty: the file has only hashes of theirs.

        Raises:
            SettingsError: none of them has a token, so that no client could change anything.
        """
        if not any(role in roles for role, _ in self.digests):
            raise SettingsError("tokenSecretKeyFile: none of its roles is one of superUserRoles")
        return next(self.of_roles(roles), b"").decode()

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`. Lasts equally long for known and unknown tokens."""
        if not evidence.token:
            return None
        found, given = None, hashlib.sha256(evidence.token).digest()
        for role, digest in self.digests:
            if hmac.compare_digest(digest, given):
                found = role
        return None if found is None else Principal(found, Proof.STATIC_TOKEN)


def is_hash(secret: str) -> bool:
    """Whether the secret of a line is the hash of a token."""
    return secret.startswith(HASH_PREFIX)


def hash_token(token: str) -> str:
    """The hash of a token, as a line has it in place of the token.

    Raises:
        ValueError: the token could be guessed from its hash, or is not a token.
    """
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token has printable ASCII characters and no blanks")
    if len(token) < _MIN_HASHED_LENGTH or len(set(token)) < _MIN_DISTINCT:
        raise ValueError(
            f"a token of fewer than {_MIN_HASHED_LENGTH} random characters could be guessed from "
            "its hash"
        )
    return HASH_PREFIX + hashlib.sha256(token.encode()).hexdigest()


def _digest(secret: str, number: int) -> bytes:
    if not is_hash(secret):
        return hashlib.sha256(secret.encode()).digest()
    digits = secret.removeprefix(HASH_PREFIX)
    if not _HASH.fullmatch(digits):
        raise SettingsError(
            f"tokenSecretKeyFile, line {number}: 64 hexadecimal digits expected after {HASH_PREFIX}"
        )
    return bytes.fromhex(digits)


# A token that a daemon draws for the commands on its own machine.
#
# It is in a file that only the daemon's user can read, for as long as the daemon runs: who can
# read the file could read the daemon's memory too. Commands find the file by the address of the
# daemon.


_TOKEN_BYTES: Final = 32
_FOLDER: Final = "broker-ctl"
_SERVICE: Final = Path("/run") / _FOLDER
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class LoopbackToken:
    """A random token of the role `LOOPBACK_ROLE`."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`; from another machine it proves nothing."""
        if not evidence.is_local or not hmac.compare_digest(self._token.encode(), evidence.token):
            return None
        return Principal(LOOPBACK_ROLE, Proof.LOOPBACK_TOKEN)

    @contextmanager
    def published(self, directory: Path, addresses: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Keep the token in a file for each host and port, for the length of the block.

        Raises:
            StartError: the directory belongs to another user, or cannot be written.
        """
        files = [directory / _name(host, port) for host, port in addresses]
        try:
            _make_private(directory)
            for file in files:
                _write(file, self._token)
        except OSError as error:
            raise StartError(
                f"the token for local commands: {error.filename or directory}: "
                f"{error.strerror or error}"
            ) from error
        try:
            yield
        finally:
            for file in files:
                _remove(file, self._token)


def runtime_directory(environment: Mapping[str, str]) -> Path:
    """Where a daemon keeps the files: systemd's RUNTIME_DIRECTORY, or the user's own."""
    service = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    return Path(service) if service else next(_of_user(environment))


def find_token(url: str, environment: Mapping[str, str]) -> str | None:
    """The token of the daemon at a loopback URL; None: there is none that is safe to send."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError):
        return None
    host = parts.hostname or ""
    for directory in (*_of_user(environment), _SERVICE):
        token = _read(directory, _name(host, port))
        if token is not None:
            return token
    return None


def _of_user(environment: Mapping[str, str]) -> Iterator[Path]:
    if runtime := environment.get("XDG_RUNTIME_DIR", ""):
        yield Path(runtime) / _FOLDER
    yield Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"


def _name(host: str, port: int) -> str:
    return f"{reached_at(host).replace(':', '_')}-{port}.token"


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    status = directory.lstat()
    require_trusted(directory, status, {0, os.geteuid()})
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))


def _write(file: Path, token: str) -> None:
    # In one step: a command never reads half a token; that of a daemon that was killed is replaced.
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "w") as out:
        out.write(token)
    fresh.replace(file)


def _remove(file: Path, token: str) -> None:
    try:
        # Another daemon may have the port by now.
        if file.read_text(encoding="ascii") == token:
            file.unlink()
    except (OSError, ValueError):
        return


def _read(directory: Path, name: str) -> str | None:
    """The token in a file that no other user but root can have written."""
    try:
        # Only root makes directories beside that of the service.
        others = {directory.lstat().st_uid} if directory == _SERVICE else set[int]()
        file = directory / name
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW)) as opened:
            require_trusted(file, os.fstat(opened.fileno()), {0, os.geteuid(), *others})
            return opened.read(_TOKEN_BYTES * 2)
    except (OSError, ValueError):
        return None
