"""Become a command that ends with its parent: ``guard.py PARENT_PID COMMAND ARG...``.

If its parent is killed with SIGKILL, a server would run on and hold its ports. The kernel's
parent-death signal survives exec, and only the child itself can request it: this script does so
before it becomes the server. It is run by path, without the package, to start fast.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the signal, check that the parent still lives, and exec."""
    parent, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # If the parent died before the call above, the signal will not come.
    if os.getppid() != int(parent):
        sys.exit("the parent process is gone")
    os.execv(command[0], command)  # noqa: S606 - the whole purpose; no shell is involved


if __name__ == "__main__":
    main()
