"""A shell in a terminal, as a reader has one: commands, answers to questions, Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import shlex
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_MARK: Final = "\x1e"
_DONE: Final = re.compile(_MARK + r"(\d+)" + _MARK)
_QUESTION: Final = re.compile(r"\[y/N\]: *$")
_READ: Final = 1 << 16


class Unfinished(Exception):
    """A command did not end, or did not show what it should, within its time."""


class Terminal:
    """One bash; commands share its variables, directory and environment."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._terminal, inner = pty.openpty()
        mode = termios.tcgetattr(inner)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, mode)
        script, self._script = os.pipe()
        self._shell = subprocess.Popen(
            ("bash", "--norc", "--noprofile", f"/dev/fd/{script}"),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=directory,
            env=dict(environment),
            pass_fds=(script,),
            start_new_session=True,
            # The process has one thread.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(inner)
        os.close(script)
        self._unread = ""

    def type(self, command: str) -> None:
        """Begin a command; what it prints is read by the other functions."""
        line = f"eval {shlex.quote(command)}\nprintf '{_MARK}%s{_MARK}' $?\n"
        os.write(self._script, line.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._terminal, b"\x03")

    def finish(self, limit_s: float) -> tuple[str, int]:
        """What the command printed since the last look, and its exit code.

        Raises:
            Unfinished: it goes on.
        """
        self._wait(lambda seen: _DONE.search(seen) is not None, limit_s)
        done = _DONE.search(self._unread)
        assert done is not None
        printed, self._unread = self._unread[: done.start()], self._unread[done.end() :]
        return printed, int(done[1])

    def wait_for(self, is_enough: Callable[[str], bool], limit_s: float) -> str:
        """What a command that goes on has printed, as soon as it is enough.

        Raises:
            Unfinished: it was not, or the command has ended.
        """
        self._wait(lambda seen: is_enough(seen) or _DONE.search(seen) is not None, limit_s)
        printed, self._unread = self._unread, ""
        if _DONE.search(printed):
            raise Unfinished(f"it has ended:\n{printed}")
        return printed

    def _wait(self, is_enough: Callable[[str], bool], limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while not is_enough(self._unread):
            left = end - time.monotonic()
            if left <= 0:
                raise Unfinished(f"not within {limit_s:g} s:\n{self._unread}")
            if select.select([self._terminal], [], [], left)[0]:
                self._unread += os.read(self._terminal, _READ).decode(errors="replace")
                if _QUESTION.search(self._unread):
                    os.write(self._terminal, b"y\n")
                    self._unread += "\n"
