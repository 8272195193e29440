"""Who this daemon is to the ZooKeeper servers, with the newest passwords."""

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


class NewestIdentity:
    """Each new connection proves the newest identity; those that exist keep theirs."""

    def __init__(self, newest: Reloadable[Identity]) -> None:
        self._newest = newest

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
    of_start: list[Identity] = []

    def load() -> Identity:
        found = identity_of(settings)
        if of_start and HAS_IDENTITY.holds(settings) and zookeeper.sets_acl:
            _require_own_nodes(of_start[0], found)
        if not of_start:
            of_start.append(found)
        return found

    newest = reloadable(settings, reloader, "zookeeper-passwords", _FILES, load)
    assert newest is not None, "there is a file"
    return NewestIdentity(newest)


def _require_own_nodes(before: Identity, after: Identity) -> None:
    """Refuse an identity to which the nodes of this daemon do not belong.

    Raises:
        SettingsError: it is another one than at the start.
    """
    if before.digest != after.digest:
        raise SettingsError(
            "zookeeperAuthDigestFile: the access control lists of the daemon's nodes name the old "
            "password, so a new one would lose them; use SASL, whose lists name the user only"
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
        digest=_user_and_password("zookeeperAuthDigestFile", zookeeper.auth_digest_file),
        sasl=_user_and_password("zookeeperSaslDigestFile", zookeeper.sasl_digest_file),
        has_certificate=zookeeper.tls_enabled and zookeeper.tls_cert_file is not None,
    )


def _user_and_password(key: str, path: Path | None) -> bytes:
    if path is None:
        return b""
    secret = read_secret(path, key)
    if b":" not in secret:
        raise StartError(f"{key}={path}: the file must contain user:password")
    return secret
