"""Placement without a leader: whoever is asked takes the bundle (loadManagerClassName: Noop)."""

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import PERSISTENT


class Standalone:
    """`Placement` of a broker that is all there is.

    Where there are others all the same, the owner node still says who was first.
    """

    def __init__(self, broker_id: str) -> None:
        self._broker_id = broker_id

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """This broker."""
        del bundle, domain
        return self._broker_id
