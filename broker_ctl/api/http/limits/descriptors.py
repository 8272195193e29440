"""Which part of the process's descriptors the sockets of clients may have.

An eighth is kept back for ZooKeeper, other brokers, logs and files: a daemon that cannot connect to
ZooKeeper again loses its session and all bundles.
"""

import logging
import resource
from fractions import Fraction
from typing import Final

log = logging.getLogger(__name__)

HTTP: Final = Fraction(1, 2)
BINARY: Final = Fraction(1, 4)
# Before their CONNECT; for a moment there may be twice as many.
BINARY_WAITING: Final = Fraction(1, 32)
BINARY_REFUSED: Final = Fraction(1, 32)
# Clients that begin their TLS handshake, at all ports.
HANDSHAKES: Final = Fraction(1, 32)


def cap(wanted: int, part: Fraction) -> int:
    """``wanted`` sockets, at most this part of the descriptors; at least one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, max(1, int(limit * part)))


def cap_and_log(wanted: int, part: Fraction, what: str, key: str) -> int:
    """As `cap`; a log line names the setting that does not count."""
    most = cap(wanted, part)
    if most < wanted:
        log.info(
            "limiting %s connections to %d instead of %s=%d: "
            "this process may open %d files; raise LimitNOFILE to allow more",
            *(what, most, key, wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )
    return most
