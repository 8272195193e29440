"""The keys of the cluster, from their file or from what all daemons have to verify tokens."""

from collections.abc import Iterator

from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.daemon.wiring.security.authentication import Authentication
from broker_ctl.daemon.wiring.security.jwt import read_jwt_key
from broker_ctl.errors import SettingsError
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.settings.conditions import SIGNED, TOKENS
from broker_ctl.settings.root import Settings


def cluster_keys_of(
    settings: Settings, authentication: Authentication | None
) -> ClusterKeys | None:
    """The keys; None: there is neither a file of them, nor a secret that all brokers have.

    Raises:
        StartError, SettingsError: a file that cannot be read, or holds no keys; or nothing
            to derive keys from where brokers need them.
    """
    file = settings.security.cluster_key_file
    if file is not None:
        return ClusterKeys.parse(read_secret(file, "clusterKeyFile").decode(errors="replace"))
    if authentication is None:
        return None
    secrets = tuple(_shared_secrets(settings, authentication))
    if secrets:
        return ClusterKeys.derived(settings.broker.cluster_name, secrets)
    if SIGNED.holds(settings):
        raise SettingsError(
            "clusterKeyFile: not set, and tokenSecretKeyFile has no token of a super user in the "
            "clear to derive keys from: broker-ctl cluster-key create makes a file of keys"
        )
    return None


def _shared_secrets(settings: Settings, authentication: Authentication) -> Iterator[bytes]:
    """What all brokers have and no client, but for super users: the first one signs."""
    if authentication.tokens is not None:
        yield from authentication.tokens.of_roles(authentication.roles.super_users)
    key = read_jwt_key(settings) if TOKENS.holds(settings) else None
    if key is not None and isinstance(key.key, bytes):
        yield key.key
