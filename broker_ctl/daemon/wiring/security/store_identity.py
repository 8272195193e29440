"""Who this daemon is to the ZooKeeper servers, with the newest passwords."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_ctl.daemon.wiring.security.rotation import reloadable
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.security.guarded_files import read_secret
from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import HAS_IDENTITY
from broker_ctl.settings.root import Settings
from broker_ctl.store.zookeeper.access.identity import Identity, ProvenIdentity
from broker_ctl.store.zookeeper.connection import Connection

_FILES: Final = ("zookeeperAuthDigestFile", "zookeeperSaslDigestFile")
# The old one and the new one, and another change that begins before the end of the first.
_MOST_DIGESTS: Final = 4


class NewestIdentity:
    """Each new connection proves the newest identity; those that exist keep theirs."""

    def __init__(self, newest: Reloadable[Identity]) -> None:
        self._newest = newest
        self._connections: list[Callable[[str], None]] = []

    def listen(self, drop: Callable[[str], None]) -> None:
        """See `Identity.listen`."""
        self._connections.append(drop)

    def prove_again(self) -> None:
        """Drop the connections; their sessions come back on new ones at once."""
        for drop in self._connections:
            drop("zookeeperAuthDigestFile names other users")

    @property
    def newest(self) -> Identity:
        """The identity in use."""
        return self._newest.current

    @property
    def is_known(self) -> bool:
        """See `Identity.is_known`."""
        return self.newest.is_known

    async def prove(self, connection: Connection) -> None:
        """See `Identity.prove`."""
        await self.newest.prove(connection)


def newest_identity(settings: Settings, reloader: Reloader) -> ProvenIdentity:
    """The identity by the newest files of passwords.

    Raises:
        StartError: a file that cannot be read, is not a secret, or has no user:password.
    """
    zookeeper = settings.zookeeper
    if zookeeper.auth_digest_file is None and zookeeper.sasl_digest_file is None:
        return identity_of(settings)
    in_use: list[Identity] = []

    def load() -> Identity:
        found = identity_of(settings)
        if in_use and HAS_IDENTITY.holds(settings) and zookeeper.sets_acl:
            _require_own_nodes(in_use[0], found)
        return found

    newest = reloadable(settings, reloader, "zookeeper-passwords", _FILES, load)
    assert newest is not None, "there is a file"
    in_use[:] = [newest.current]
    identity = NewestIdentity(newest)

    def use(replaced: Identity) -> None:
        before, in_use[:] = in_use[0], [replaced]
        if before.digests != replaced.digests:
            identity.prove_again()

    newest.listen(use)
    return identity


def _require_own_nodes(before: Identity, after: Identity) -> None:
    """Refuse an identity to which the nodes of this daemon do not belong.

    Raises:
        SettingsError: it shares nothing with the one in use.
    """
    if before.digests and not set(before.digests) & set(after.digests):
        raise SettingsError(
            "zookeeperAuthDigestFile: the access control lists of the daemon's nodes name the old "
            "password, so a new one alone would lose them; have the file name both, each on a line "
            "of its own, until broker-ctl zookeeper secure --all has given the nodes to both"
        )
    if before.sasl.partition(b":")[0] != after.sasl.partition(b":")[0]:
        raise SettingsError(
            "zookeeperSaslDigestFile: the daemon's nodes belong to the user of before; only the "
            "password can change while it runs"
        )


def identity_of(settings: Settings) -> Identity:
    """Who this daemon is to the ZooKeeper servers.

    Raises:
        StartError: a file that cannot be read, is not a secret, or has no user:password.
    """
    zookeeper = settings.zookeeper
    return Identity(
        digests=_users("zookeeperAuthDigestFile", zookeeper.auth_digest_file, is_one_line=False),
        sasl=b"".join(_users("zookeeperSaslDigestFile", zookeeper.sasl_digest_file)),
        has_certificate=zookeeper.tls_enabled and zookeeper.tls_cert_file is not None,
    )


def _users(key: str, path: Path | None, *, is_one_line: bool = True) -> tuple[bytes, ...]:
    if path is None:
        return ()
    lines = read_secret(path, key, is_one_line=is_one_line).splitlines()
    found = tuple(filter(None, (line.strip() for line in lines)))
    if any(b":" not in line for line in found):
        raise StartError(f"{key}={path}: each line must contain user:password")
    if len(found) > _MOST_DIGESTS:
        raise StartError(f"{key}={path}: has more than {_MOST_DIGESTS} lines")
    return found
