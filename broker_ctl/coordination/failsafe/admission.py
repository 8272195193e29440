"""Whether this broker may acquire bundles, beyond its lease."""

from collections.abc import Sequence
from typing import Protocol

from broker_ctl.store.interface import Check


class Admission(Protocol):
    """Asked before each transaction that acquires bundles, and part of it."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks of each transaction that acquires."""
        ...

    def require(self) -> None:
        """Check right before such a transaction is sent.

        Raises:
            NotAdmitted: others may serve on by a promise of this broker.
        """
        ...

    async def wait(self) -> None:
        """Return once bundles may be acquired."""
        ...

    async def on_failed(self, checks: Sequence[Check]) -> None:
        """One of these checks has failed: read again what they are about."""
        ...


class OpenAdmission:
    """Every broker with a lease may acquire: nobody serves on without one."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """None."""
        return ()

    def require(self) -> None:
        """Returns."""

    async def wait(self) -> None:
        """Returns."""

    async def on_failed(self, checks: Sequence[Check]) -> None:
        """Returns."""
