"""Reads the files that decide who is believed, and judges who else could have written them.

As OpenSSH judges its own: the file and every directory above it belong to root or to this user, and
nobody else may write them. Who may write a directory could put another file in the place of any in
it, whatever the mode of that one is.
"""

import errno
import logging
import os
import pwd
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from broker_ctl.errors import StartError

log = logging.getLogger(__name__)

_MAX_BYTES: Final = 1 << 20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0
# As many as Linux follows.
_MAX_LINKS: Final = 40


def read_guarded(
    path: Path, warn: Callable[[str], None] | None = None, *, max_bytes: int = _MAX_BYTES
) -> bytes:
    """Read a file that nobody but root and this user can have written.

    Args:
        path: the file.
        warn: is called if others can read it; None: they may.
        max_bytes: a larger one is refused.

    Raises:
        OSError: it cannot be read, is too large, or others can write or replace it.
    """
    with path.open("rb") as file:
        # Of the file that is read: the path may lead to another one by now.
        status = os.fstat(file.fileno())
        require_trusted(path, status, {_ROOT, os.geteuid()})
        # A pipe or a terminal has no contents that others could read later.
        if warn is not None and stat.S_ISREG(status.st_mode):
            _look_for_readers(status, warn)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
    return content


def read_secret(path: Path, key: str, *, is_one_line: bool = True) -> bytes:
    """Read the secret file of a setting, without the newline that editors append.

    Raises:
        StartError: it cannot be read, is empty, begins with a mark, has several lines where it is
            one secret, or others can write it. Never shows the contents.
    """
    try:
        secret = read_guarded(path, lambda text: log.warning("%s=%s: %s", key, path, text))
    except OSError as error:
        raise StartError(f"{key}={path}: {error.strerror or error}") from error
    if secret.startswith(BOM_UTF8):
        raise StartError(f"{key}={path}: it begins with a byte order mark: save it without one")
    secret = secret.strip()
    if not secret:
        raise StartError(f"{key}={path}: the file is empty")
    if is_one_line and len(secret.splitlines()) > 1:
        raise StartError(f"{key}={path}: it has several lines, and is to be one secret alone")
    return secret


def require_trusted(path: Path, status: os.stat_result, owners: Collection[int]) -> None:
    """Refuse an opened file that others than ``owners`` can write or replace.

    Raises:
        OSError: names the file or the directory, and what helps.
    """
    way = _Way(owners)
    # What this process inherited, such as the pipe of a shell, comes from its caller.
    if way.leads_to_inherited(path) and not stat.S_ISREG(status.st_mode):
        return
    if status.st_mode & _OTHERS_WRITE:
        raise PermissionError(
            errno.EPERM,
            "other users of this machine can write it; replace it, and run chmod go-w on the file",
            str(path),
        )
    if status.st_uid not in owners:
        raise PermissionError(
            errno.EPERM,
            f"belongs to {_user(status.st_uid)}, who can write it; replace it, and make it a file "
            f"of {' or '.join(_user(uid) for uid in sorted(owners))}",
            str(path),
        )


class _Way:
    """The directories and links between the root of the file system and a file."""

    def __init__(self, owners: Collection[int]) -> None:
        self._owners = owners
        self._links = 0

    def leads_to_inherited(self, path: Path) -> bool:
        """Whether ``path`` is a descriptor of this process.

        Raises:
            OSError: others than the owners can write a directory above it.
        """
        inherited = Path("/proc") / str(os.getpid()) / "fd"
        rest = list(reversed(path.absolute().parts[1:]))
        current = Path("/")
        while rest:
            is_shared = self._judge(current)
            if current == inherited:
                return True
            name = rest.pop()
            if name == "..":
                current = current.parent
                continue
            step = current / name
            status = step.lstat()
            if is_shared and status.st_uid not in self._owners:
                raise _replaceable(
                    f"{step} belongs to {_user(status.st_uid)}, in a directory of all users"
                )
            if not stat.S_ISLNK(status.st_mode):
                current = step
                continue
            self._links += 1
            if self._links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = step.readlink()
            if target.is_absolute():
                current = Path("/")
            rest += reversed([part for part in target.parts if part != "/"])
        return False

    def _judge(self, directory: Path) -> bool:
        """Whether all users may put something beside what others have in this directory."""
        status = directory.stat()
        if status.st_uid not in self._owners:
            raise _replaceable(f"the directory {directory} belongs to {_user(status.st_uid)}")
        is_open = bool(status.st_mode & _OTHERS_WRITE)
        # As /tmp: only the owner of an entry can replace it.
        if is_open and not status.st_mode & stat.S_ISVTX:
            raise _replaceable(
                f"others can write the directory {directory}: chmod go-w {directory} helps"
            )
        return is_open


def _replaceable(why: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"other users of this machine can replace it: {why}")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _look_for_readers(status: os.stat_result, warn: Callable[[str], None]) -> None:
    if status.st_mode & stat.S_IROTH:
        warn("every user of this machine can read this secret; chmod o-r helps")
    # A service often reads a file of root's by its group.
    elif status.st_mode & stat.S_IRGRP and status.st_uid == os.geteuid():
        warn("its whole group can read this secret; chmod g-r helps")
