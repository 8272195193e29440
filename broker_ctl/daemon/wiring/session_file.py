"""The session that a daemon leaves behind with ``stopMode=keep``, for the one that starts next.

Session id and password are all that is needed to take a session up, so the file is readable for
its owner only.
"""

import os
from pathlib import Path

from broker_ctl.codec import decode_object, encode
from broker_ctl.errors import CorruptRecord

_NAME = "zookeeper-session.json"


def save(directory: Path, session_id: int, password: bytes) -> None:
    """Write the file, replacing an earlier one in one step."""
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"{_NAME}.new"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(encode({"session": session_id, "password": password.hex()}))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(directory / _NAME)


def take(directory: Path) -> tuple[int, bytes]:
    """Read the file and remove it: a session is taken up once. ``(0, b"")`` without one."""
    # Renamed first: of two processes that start at once only one finds it under its name.
    taken = directory / f"{_NAME}.{os.getpid()}"
    try:
        (directory / _NAME).rename(taken)
    except FileNotFoundError:
        return 0, b""
    try:
        row = decode_object(taken.read_bytes())
        return int(row["session"]), bytes.fromhex(row["password"])
    except (CorruptRecord, KeyError, TypeError, ValueError):
        return 0, b""
    finally:
        taken.unlink()
