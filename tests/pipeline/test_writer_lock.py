"""Tables on this machine have one writer at a time, or one commit at a time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import alone, taking_turns


def test_a_second_ingest_into_the_same_tables_is_turned_away(tmp_path: Path) -> None:
    root = tmp_path / "a" / "tables"
    with alone(root):
        with pytest.raises(PipelineError, match="another ingest"), alone(root):
            raise AssertionError
        with alone(tmp_path / "others"):
            pass
    with alone(root):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="Not a directory"), alone(tmp_path / "file" / "x"):
        raise AssertionError


def test_commits_to_the_same_tables_wait_for_each_other(tmp_path: Path) -> None:
    order: list[str] = []
    is_asked = Event()

    def other() -> None:
        is_asked.set()
        with taking_turns(tmp_path):
            order.append("other")

    with ThreadPoolExecutor(1) as pool:
        with taking_turns(tmp_path):
            # The lock is the one of those who write alone.
            with pytest.raises(PipelineError, match="another ingest"), alone(tmp_path):
                raise AssertionError
            waiting = pool.submit(other)
            assert is_asked.wait(60)
            order.append("this")
        waiting.result(60)
    assert order == ["this", "other"]
    with taking_turns(None):
        pass
