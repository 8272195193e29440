"""A secret that is replaced when its file changes."""

from broker_ctl.security.rotation.reloadable import Reloadable


class NewestSecret:
    """Returns the newest one when it is called."""

    def __init__(self, newest: Reloadable[bytes]) -> None:
        self._newest = newest

    def __call__(self) -> bytes:
        """The secret in use."""
        return self._newest.current
