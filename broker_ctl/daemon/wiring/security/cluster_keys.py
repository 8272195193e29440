"""The keys of the cluster, from their file or from the tokens."""

from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.daemon.wiring.security.authentication import Authentication
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.settings.root import Settings


def cluster_keys_of(
    settings: Settings, authentication: Authentication | None
) -> ClusterKeys | None:
    """The keys; None: there is neither a file of them, nor one of tokens.

    Raises:
        StartError, SettingsError: a file that cannot be read, or holds no keys.
    """
    file = settings.security.cluster_key_file
    if file is not None:
        return ClusterKeys.parse(read_secret(file, "clusterKeyFile").decode(errors="replace"))
    if authentication is None or authentication.tokens is None:
        return None
    tokens = authentication.tokens.of_roles(authentication.roles.super_users)
    return ClusterKeys.derived(settings.broker.cluster_name, tokens)
