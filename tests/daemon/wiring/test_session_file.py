"""A session that is kept is taken up by one process, and only once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker_ctl.daemon.wiring import stores
from broker_ctl.store.interface import NO_SESSION, SavedSession

NONE = NO_SESSION
KEPT = SavedSession(7, b"secret", 41)


def test_a_saved_session_is_taken_once(tmp_path: Path) -> None:
    stores.save(tmp_path / "kept", KEPT)
    assert stores.take(tmp_path / "kept") == KEPT
    assert stores.take(tmp_path / "kept") == NONE
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_saved_session_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        stores.save(tmp_path / "kept", KEPT)
    finally:
        os.umask(earlier)
    (file,) = (tmp_path / "kept").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_of_several_processes_at_once_one_takes_the_session(tmp_path: Path) -> None:
    def taken_in_a_process(_: int) -> bool:
        taking = subprocess.run([sys.executable, "-c", _TAKE, str(tmp_path)], check=False)
        return taking.returncode == 0

    for _ in range(2):
        stores.save(tmp_path, KEPT)
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(taken_in_a_process, range(4))) == 1


_TAKE = """
import sys
from pathlib import Path
from broker_ctl.daemon.wiring import stores
sys.exit(not stores.take(Path(sys.argv[1])).session_id)
"""


def test_a_file_that_does_not_decode_gives_no_session_and_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-session.json").write_bytes(b"{")
    assert stores.take(tmp_path) == NONE
    assert list(tmp_path.iterdir()) == []
