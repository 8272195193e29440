"""What files contain, in few bytes, to notice that they have changed."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

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
