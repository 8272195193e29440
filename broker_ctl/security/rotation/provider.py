"""A provider of principals that is replaced when its files change."""

from collections.abc import Callable

from broker_ctl.security.authentication import Evidence, Provider
from broker_ctl.security.principal import Principal


class NewestProvider:
    """Passes each client to ``newest()``."""

    def __init__(self, newest: Callable[[], Provider]) -> None:
        self._newest = newest

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        return self._newest().authenticate(evidence)
