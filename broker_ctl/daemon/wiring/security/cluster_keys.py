"""The keys of the cluster, from their file or from what all daemons have to verify tokens."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.security.authentication import Authentication, build_authentication
from broker_ctl.daemon.wiring.security.rotation import reloadable
from broker_ctl.errors import SettingsError
from broker_ctl.instruments.kinds import Labels
from broker_ctl.instruments.security import SecurityInstruments
from broker_ctl.security.cluster_key import ClusterKeys, derive_keys
from broker_ctl.security.guarded_files import read_guarded, read_secret
from broker_ctl.security.key_file import KeyFile
from broker_ctl.security.rotation.newest_keys import NewestKeys
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.conditions import SIGNED, TOKENS
from broker_ctl.settings.root import Settings

log = logging.getLogger(__name__)

# Keys may be derived from what is in the other two.
_FILES: Final = ("clusterKeyFile", "tokenSecretKeyFile", "tokenSecretKey")


def newest_cluster_keys(
    settings: Settings, authentication: Authentication | None, reloader: Reloader
) -> NewestKeys | None:
    """The keys, reloaded when their files change.

    None: there is neither a file of them, nor a secret that all brokers have.

    Raises:
        StartError, SettingsError: a file that cannot be read, or holds no keys; or nothing
            to derive keys from where brokers need them.
    """
    newest = reloadable(
        settings, reloader, "cluster-keys", _FILES, lambda: _keys(settings, authentication)
    )
    return None if newest is None else NewestKeys(newest)


def read_cluster_keys(settings: Settings) -> NewestKeys | None:
    """The keys that a daemon with these settings has, for a command beside it.

    Raises:
        StartError, SettingsError: as `newest_cluster_keys`.
    """
    authentication = build_authentication(settings, SystemClock(), Reloader())
    return newest_cluster_keys(settings, authentication, Reloader())


def derived_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys that daemons with these settings derive from tokens; none without such tokens.

    Raises:
        StartError, SettingsError: a file that cannot be read.
    """
    return _derive(settings, build_authentication(settings, SystemClock(), Reloader()))


def _keys(settings: Settings, authentication: Authentication | None) -> ClusterKeys | None:
    file = settings.security.cluster_key_file
    derive = partial(_derive, settings, authentication)
    if file is not None:
        text = read_secret(file, "clusterKeyFile", is_one_line=False).decode(errors="replace")
        keys = KeyFile.parse(text).keys(derive)
    elif derived := derive():
        keys = ClusterKeys.of(derived, is_derived=True)
    elif authentication is not None and SIGNED.holds(settings):
        raise SettingsError(
            "clusterKeyFile: not set, and tokenSecretKeyFile has no token of a super user in the "
            "clear to derive keys from: broker-ctl cluster-key create makes a file of keys"
        )
    else:
        return None
    log.info("cluster keys: %s signs, %s verify", keys.names[0], ", ".join(keys.names))
    return keys


def _derive(settings: Settings, authentication: Authentication | None) -> tuple[bytes, ...]:
    if authentication is None:
        return ()
    secrets = _shared_secrets(settings, authentication)
    return derive_keys(settings.broker.cluster_name, secrets)


def _shared_secrets(settings: Settings, authentication: Authentication) -> Iterator[bytes]:
    """What all brokers have and no client, but for super users: the first one signs."""
    file = settings.security.secret_file
    if file is not None and TOKENS.holds(settings):
        # Authentication has warned of those who can read it.
        text = read_guarded(file).decode(errors="replace")
        yield from StaticTokens.parse(text).of_roles(authentication.roles.super_users)
    if not TOKENS.holds(settings):
        return
    # Imported only where clients have such tokens: a daemon without it starts sooner.
    from broker_ctl.daemon.wiring.security.jwt import read_jwt_key

    key = read_jwt_key(settings)
    if key is not None and isinstance(key.key, bytes):
        yield key.key


def bind_cluster_keys(instruments: SecurityInstruments, keys: NewestKeys | None) -> None:
    """Bind the metric that shows which keys this process has read."""

    def uses() -> Mapping[Labels, float]:
        names = () if keys is None else keys.names
        return {(name, "verify" if number else "sign"): 1.0 for number, name in enumerate(names)}

    instruments.cluster_keys.bind(uses)
