"""Ways on which a secret would cross a network without TLS, as conditions on the settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.conditions import (
    ATTACHED,
    BEARER_TOKENS,
    METADATA_STORES,
    OWN_BROKER,
    STORE_OFF_LOOPBACK,
    WEBHOOK,
    Condition,
    all_of,
    either,
    given,
    listens_off_loopback,
    off_loopback,
    where,
)


@dataclass(frozen=True, slots=True)
class CleartextWay:
    """A way of a secret over a network in the clear.

    Attributes:
        keys: the settings that open it, the one to change first.
        message: the secret, and what to do.
    """

    condition: Condition
    keys: tuple[str, ...]
    message: str


def _http_hosts(*texts: str) -> Sequence[str]:
    urls = [HttpUrl.parse(text) for text in texts if text]
    return [url.address.host for url in urls if url.scheme == "http"]


def _served(port: str, address: str = "bindAddress") -> Condition:
    """A port without TLS, whose clients send a token, that other machines can reach."""
    return all_of(BEARER_TOKENS, listens_off_loopback(address, given(port)))


_PULSAR_OFF_LOOPBACK: Final = off_loopback(
    "pulsarAdminUrl", lambda text: _http_hosts(*text.split(","))
)
_DIGEST: Final = "zookeeperAuthDigestFile"
_SASL: Final = "zookeeperSaslDigestFile"
_STORE_IN_THE_CLEAR: Final = all_of(
    where("zookeeperTlsEnabled", "false"),
    STORE_OFF_LOOPBACK,
)

# Those of all clients of ZooKeeper, daemons and commands.
CLEARTEXT_TO_STORE: Final = (
    CleartextWay(
        all_of(given(_DIGEST), _STORE_IN_THE_CLEAR),
        (_DIGEST, "zookeeperTlsEnabled", *METADATA_STORES),
        "the password would cross the network in the clear: set zookeeperTlsEnabled=true, or "
        "allow it",
    ),
    CleartextWay(
        # DIGEST-MD5 hides the password, but its hash can be tried against guesses, and what
        # follows can be changed on the way.
        all_of(given(_SASL), _STORE_IN_THE_CLEAR),
        (_SASL, "zookeeperTlsEnabled", *METADATA_STORES),
        "a hash of the password, and every request, would cross the network in the clear: set "
        "zookeeperTlsEnabled=true, or allow it",
    ),
)
CLEARTEXT_WAYS: Final = (
    CleartextWay(
        _served("webServicePort"),
        ("webServicePort", "bindAddress", "authenticationEnabled"),
        "tokens would cross the network in the clear: leave it empty and set webServicePortTls, "
        "or allow it",
    ),
    CleartextWay(
        all_of(OWN_BROKER, _served("lookupServicePort")),
        ("lookupServicePort", "bindAddress", "authenticationEnabled"),
        "tokens would cross the network in the clear: set lookupServicePortTls in its place, or "
        "allow it",
    ),
    CleartextWay(
        all_of(OWN_BROKER, _served("adminServicePort", "adminBindAddress")),
        ("adminServicePort", "adminBindAddress", "bindAddress", "authenticationEnabled"),
        "tokens would cross the network in the clear: set adminServicePortTls in its place, or "
        "allow it",
    ),
    CleartextWay(
        all_of(
            where("authenticateMetricsEndpoint", "true"),
            _served("metricsServicePort", "metricsBindAddress"),
        ),
        ("metricsServicePort", "metricsBindAddress", "bindAddress", "authenticateMetricsEndpoint"),
        "tokens would cross the network in the clear: set metricsServicePortTls in its place, or "
        "allow it",
    ),
    *CLEARTEXT_TO_STORE,
    CleartextWay(
        all_of(WEBHOOK, off_loopback("dataPlaneUrl", _http_hosts)),
        ("dataPlaneUrl",),
        "the secret of the broker process would cross the network in the clear: name an https URL "
        "or a loopback address, or allow it",
    ),
    CleartextWay(
        all_of(ATTACHED, given("pulsarTokenFile"), _PULSAR_OFF_LOOPBACK),
        ("pulsarAdminUrl", "pulsarTokenFile"),
        "the token of the cluster would cross the network in the clear: name https URLs, or allow "
        "it",
    ),
)
# A secret would cross a network in the clear.
CLEARTEXT: Final = either(*(way.condition for way in CLEARTEXT_WAYS))
