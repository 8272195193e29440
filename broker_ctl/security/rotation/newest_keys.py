"""The cluster's keys, replaced when their file changes."""

from typing import Final

from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.rotation.reloadable import Reloadable

_MAX_KEPT: Final = 16


class NewestKeys:
    """Those of the newest file alone: a removed key proves nothing from then on."""

    def __init__(self, newest: Reloadable[ClusterKeys]) -> None:
        self._newest = newest

    @property
    def names(self) -> tuple[str, ...]:
        """See `ClusterKeys.names`."""
        return self._newest.current.names

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        return self._newest.current.sign(context, message)

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """See `ClusterKeys.verify`."""
        return self._newest.current.verify(context, message, signature)

    def kept(self) -> "KeptKeys":
        """The same for signatures that last."""
        return KeptKeys(self._newest)


class KeptKeys:
    """The newest ones sign; all that were in use since the start of this process verify.

    Registrations and election nodes live as long as their sessions, and keep the signature that
    they were written with: without its key, a broker that lives would count as gone.
    """

    def __init__(self, newest: Reloadable[ClusterKeys]) -> None:
        self._newest = newest
        self._known = [newest.current]
        newest.listen(self._keep)

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        return self._newest.current.sign(context, message)

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """See `ClusterKeys.verify`."""
        return any(keys.verify(context, message, signature) for keys in self._known)

    def _keep(self, keys: ClusterKeys) -> None:
        self._known = [keys, *(known for known in self._known if known != keys)][:_MAX_KEPT]
