"""A token that a daemon draws for the commands on its own machine.

It is in a file that only the daemon's user can read, for as long as the daemon runs: who can read
the file could read the daemon's memory too. Commands find the file by the address of the daemon.
"""

import errno
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from broker_ctl.errors import StartError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.guarded_files import require_trusted
from broker_ctl.security.principal import LOOPBACK_ROLE, Principal, Proof
from broker_ctl.settings.addresses import reached_at

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
