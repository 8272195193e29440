"""Files that change under a value: what is used, what is refused, and what is counted."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.security.rotation.reloader import Reloader
from tests.support.time.waiting import eventually

LONG_S = 3600.0


class Pair:
    """Two files that belong together: the same text in both."""

    def __init__(self, directory: Path, text: str = "one") -> None:
        self.left, self.right = directory / "left", directory / "right"
        self.write(text, text)
        self.loads = 0

    def write(self, left: str, right: str) -> None:
        self.left.write_text(left)
        self.right.write_text(right)

    def load(self) -> str:
        self.loads += 1
        left, right = self.left.read_text(), self.right.read_text()
        if left != right:
            raise SettingsError("they do not belong together")
        return left

    def watched(self) -> Reloadable[str]:
        return Reloadable("pair", (self.left, self.right), self.load, LONG_S)


def check(value: Reloadable[str]) -> None:
    attempt = value.read()
    if attempt is not None:
        value.settle(attempt)


def test_changed_files_are_in_use_and_their_listeners_know(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    value, heard = pair.watched(), list[str]()
    value.listen(heard.append)
    check(value)
    assert pair.loads == 1
    pair.write("two", "two")
    check(value)
    check(value)
    assert (value.current, heard, value.reloads, value.failures) == ("two", ["two"], 1, 0)


def test_what_cannot_be_loaded_leaves_the_old_in_use_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(tmp_path)
    value = pair.watched()
    pair.write("two", "one")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            check(value)
    assert (value.current, value.reloads, value.failures) == ("one", 0, 1)
    assert value.is_failing
    (line,) = caplog.messages
    assert "pair: the changed files are not used: they do not belong together" in line
    pair.left.unlink()
    check(value)
    assert (value.current, value.failures) == ("one", 2)
    pair.write("two", "two")
    check(value)
    assert (value.current, value.reloads) == ("two", 1)
    assert not value.is_failing


def test_files_that_are_put_back_end_the_failure_without_a_reload(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    value = pair.watched()
    pair.write("two", "one")
    check(value)
    assert value.is_failing
    pair.write("one", "one")
    check(value)
    assert (value.current, value.reloads, value.is_failing) == ("one", 0, False)


def test_what_could_not_be_read_is_used_once_it_can_be(tmp_path: Path) -> None:
    pair, broken = Pair(tmp_path), [False]

    def load() -> str:
        if broken[0]:
            raise OSError("an outage")
        return pair.load()

    value = Reloadable("pair", (pair.left, pair.right), load, LONG_S)
    pair.write("two", "two")
    broken[0] = True
    check(value)
    assert value.is_failing
    broken[0] = False
    check(value)
    assert (value.current, value.is_failing) == ("two", False)


def test_files_that_are_replaced_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    replaced = iter([True])

    def load() -> str:
        found = pair.left.read_text()
        if found == "two" and next(replaced, False):
            pair.write("three", "three")
        return found

    value = Reloadable("pair", (pair.left, pair.right), load, LONG_S)
    pair.write("two", "two")
    check(value)
    assert value.current == "three"


def test_a_swapped_link_is_noticed_and_one_to_the_same_contents_is_not(tmp_path: Path) -> None:
    """As Kubernetes does it: ``..data`` is swapped, and the files are links through it."""
    for name, text in (("v1", "one"), ("v2", "one"), ("v3", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(text)
    data, token = tmp_path / "..data", tmp_path / "token"
    data.symlink_to("v1")
    token.symlink_to("..data/token")
    loads = list[str]()

    def load() -> str:
        loads.append(token.read_text())
        return loads[-1]

    value = Reloadable("token", (token,), load, LONG_S)
    for target in ("v2", "v3"):
        (tmp_path / "next").symlink_to(target)
        (tmp_path / "next").rename(data)
        check(value)
    assert loads == ["one", "two"]
    assert value.current == "two"


def test_contents_of_the_same_size_and_time_are_noticed(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    value = pair.watched()
    times = [(path, path.stat()) for path in (pair.left, pair.right)]
    pair.write("two", "two")
    for path, before in times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check(value)
    assert value.current == "two"


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    value, reloader = Reloadable("pipe", (pipe,), lambda: "read", LONG_S), Reloader()
    assert list(reloader) == []
    reloader.add(value)
    assert list(reloader) == []
    assert value.read() is None


async def test_the_period_and_a_signal_both_check(tmp_path: Path) -> None:
    slow, fast = Pair(tmp_path), Reloader()
    value = fast.add(slow.watched())
    fast.start()
    try:
        slow.write("two", "two")
        fast.check_soon()
        await eventually(lambda: value.current == "two")
    finally:
        await fast.close()
    quick = Reloader()
    other = quick.add(Reloadable("pair", (slow.left, slow.right), slow.load, 0.01))
    quick.start()
    try:
        slow.write("three", "three")
        await eventually(lambda: other.current == "three")
    finally:
        await quick.close()
    assert not [task for task in asyncio.all_tasks() if "reload" in task.get_name()]
