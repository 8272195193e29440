"""What a daemon reports others of its settings, so that those that differ are noticed.

Each daemon publishes in its registration a few digits of a digest of each value that is not the
default, and that all daemons of a cluster should have in common. Secrets, files, addresses and
ports are left out.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from broker_ctl.settings.root import DECLARATIONS, Settings

_DIGITS: Final = 8
# Of the machine, of the process, or secret.
_OWN_ENDINGS: Final = (
    "Address",
    "Addresses",
    "AddressFile",
    "AllowedHosts",
    "Directory",
    "File",
    "FilePath",
    "Port",
    "PortTls",
    "Roles",
)
_OWN: Final = frozenset(
    {
        "advertisedListeners",
        "lookupAdvertisedListeners",
        "brokerId",
        "brokerRack",
        "dataPlaneUrl",
        "kubernetesApiUrl",
        "loadBalancerOverrideBrokerNicSpeedGbps",
        "loadBalancerOverrideBrokerNics",
        "logFormat",
        "logLevel",
        "metadataStoreUrl",
        "configurationMetadataStoreUrl",
        "openTelemetryTracesEndpoint",
        "openTelemetryTracesRequestRatio",
        "pulsarAdminUrl",
        "pulsarStateUrl",
        "simulatedActLog",
        "tokenPublicKey",
        "tokenSecretKey",
    }
)


def is_of_cluster(key: str) -> bool:
    """Whether all daemons of a cluster should have the same value."""
    return key in DECLARATIONS and key not in _OWN and not key.endswith(_OWN_ENDINGS)


def fingerprints(settings: Settings) -> dict[str, str]:
    """By key, of the values that are not the default."""
    default = Settings()
    return {
        key: hashlib.sha256(settings.text(key).encode()).hexdigest()[:_DIGITS]
        for key in DECLARATIONS
        if is_of_cluster(key) and settings.text(key) != default.text(key)
    }


def differing(own: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """The keys in which others differ from this; keys that are not known here do not count."""
    found: set[str] = set()
    for other in others:
        if other != own:
            found |= {key for key in own.keys() | other.keys() if own.get(key) != other.get(key)}
    return frozenset(filter(is_of_cluster, found))
