"""The session file of ``stopMode=keep``: a session left for the next start.

Session id and password are all that a server asks of who resumes a session, so only the file's
owner may read it.
"""

import logging
import os
from pathlib import Path

from broker_ctl.codec import decode_object, encode
from broker_ctl.errors import CorruptRecord
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.store.interface import NO_SESSION, SavedSession

log = logging.getLogger(__name__)

_NAME = "zookeeper-session.json"


def save(directory: Path, session: SavedSession) -> None:
    """Write the file, atomically replacing an earlier one."""
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"{_NAME}.new"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        row = {
            "session": session.session_id,
            "password": session.password.hex(),
            "last_xid": session.last_xid,
        }
        out.write(encode(row))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(directory / _NAME)


def take(directory: Path) -> SavedSession:
    """Read and delete the file, so that a session is resumed once; no session without a file."""
    # Renamed first: of two processes that start at once, only one finds the file.
    taken = directory / f"{_NAME}.{os.getpid()}"
    try:
        (directory / _NAME).rename(taken)
    except FileNotFoundError:
        return NO_SESSION
    try:
        row = decode_object(read_guarded(taken))
        password = bytes.fromhex(row["password"])
        return SavedSession(int(row["session"]), password, int(row["last_xid"]))
    except OSError as error:
        log.warning("the session of the file %s is not resumed: %s", directory / _NAME, error)
        return NO_SESSION
    except (CorruptRecord, KeyError, TypeError, ValueError):
        return NO_SESSION
    finally:
        taken.unlink()
