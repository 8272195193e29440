"""The keys of the cluster, from their file or from the tokens."""

from broker_ctl.api.http.credentials import Credentials
from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.settings.root import Settings


def cluster_keys_of(settings: Settings, credentials: Credentials | None) -> ClusterKeys | None:
    """The keys; None: there is no file, and authentication is off.

    Raises:
        StartError, SettingsError: a file that cannot be read, or holds no keys.
    """
    file = settings.security.cluster_key_file
    if file is not None:
        return ClusterKeys.parse(read_secret(file, "clusterKeyFile").decode(errors="replace"))
    if credentials is None:
        return None
    tokens = (secret for role, secret in credentials.secrets if role in credentials.super_users)
    return ClusterKeys.derived(settings.broker.cluster_name, tokens)
