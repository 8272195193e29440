"""Reads secret files, and judges who else can read or write them."""

import errno
import logging
import os
import stat
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_ctl.errors import StartError

log = logging.getLogger(__name__)

_MAX_BYTES: Final = 1 << 20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def read_guarded(path: Path, warn: Callable[[str], None]) -> bytes:
    """Read a file that only its owner may write; ``warn`` is called if others can read it.

    Raises:
        OSError: it cannot be read, is too large, or others can write it.
    """
    with path.open("rb") as file:
        # Of the file that is read: the path may lead to another one by now.
        status = os.fstat(file.fileno())
        # A pipe or a terminal has no contents that others could replace.
        if stat.S_ISREG(status.st_mode):
            _judge(status, path, warn)
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(errno.EFBIG, f"larger than {_MAX_BYTES} bytes", str(path))
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


def _judge(status: os.stat_result, path: Path, warn: Callable[[str], None]) -> None:
    mode = status.st_mode
    if mode & _OTHERS_WRITE:
        raise PermissionError(
            errno.EPERM,
            "other users of this machine can write this secret; replace it, and run chmod go-w on "
            "the file",
            str(path),
        )
    if mode & stat.S_IROTH:
        warn("every user of this machine can read this secret; chmod o-r helps")
    # A service often reads a file of root's by its group.
    elif mode & stat.S_IRGRP and status.st_uid == os.geteuid():
        warn("its whole group can read this secret; chmod g-r helps")
