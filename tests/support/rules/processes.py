"""Looking at processes of this machine."""

import psutil


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie, which its parent has not reaped yet, has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
