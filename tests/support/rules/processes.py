"""Looking at processes of this machine."""

import psutil


def is_gone(pid: int) -> bool:
    """Whether the process has ended; it may still be waited for by whoever inherited it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
