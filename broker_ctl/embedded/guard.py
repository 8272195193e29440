"""Become a command that ends with its parent: ``guard.py PARENT_PID COMMAND ARG...``.

A server whose parent is killed with SIGKILL would run on and hold its ports. The kernel's
parent-death signal survives exec, and can only be asked for by the child itself: by this script,
before it turns into the server. It is run by path, without the package, to start fast.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, see that the parent still lives, and exec."""
    parent, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # A parent that died before the call above sends no signal any more.
    if os.getppid() != int(parent):
        sys.exit("the parent process is gone")
    os.execv(command[0], command)  # noqa: S606 - the whole purpose; no shell is involved


if __name__ == "__main__":
    main()
