"""Security keys of Pulsar that have no effect here: those that restrict access, and the others.

A daemon that ignores a restriction is more open than its configuration says, so it does not start
with one (`settings.startable`), nor with one that asks for less verification than it makes. The
other keys say how a restriction is enforced, or configure what a key of the first kind switches on.
"""

from collections.abc import Mapping
from typing import Final

_OFF: Final = frozenset({"false"})
_NO_LIMIT: Final = frozenset({"0", "-1"})
_ALWAYS: Final = frozenset({"true", "false"})

# By key, the values that switch off no check that broker-ctl always makes.
WEAKENING: Final[Mapping[str, frozenset[str]]] = {"tlsAllowInsecureConnection": _OFF}
# In lower case, as values are compared.
_PROVIDER: Final = "org.apache.pulsar.broker.authorization.pulsarauthorizationprovider"
# By key, the values that restrict nothing beyond what broker-ctl does; an empty text never does.
RESTRICTING: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("httpMaxRequestSize", "maxNamespacesPerTenant", "maxTenants"), _NO_LIMIT),
    **dict.fromkeys(
        (
            "athenzDomainNames",
            "basicAuthConf",
            "brokerClientTlsCiphers",
            "brokerClientTlsProtocols",
            "brokerClientTlsTrustStore",
            "tlsTrustStore",
            "webServiceTlsCiphers",
            "webServiceTlsProtocols",
        ),
        frozenset[str](),
    ),
    "authorizationProvider": frozenset({_PROVIDER}),
    # Names of hosts are always verified; TRACE has no route.
    **dict.fromkeys(("disableHttpDebugMethods", "tlsHostnameVerificationEnabled"), _ALWAYS),
}

_TUNING = """
anonymousUserRole  brokerClientAuthenticationParameters
brokerClientAuthenticationPlugin brokerClientSslFactoryPlugin brokerClientSslFactoryPluginParams
brokerClientSslProvider brokerClientTlsEnabledWithKeyStore brokerClientTlsKeyStore
brokerClientTlsKeyStorePassword brokerClientTlsKeyStoreType
brokerClientTlsTrustStorePassword brokerClientTlsTrustStoreType
httpMaxRequestHeaderSize httpRequestsFailOnUnknownPropertiesEnabled
inflightSaslContextExpiryMs maxInflightSaslContext
saslJaasBrokerSectionName saslJaasClientAllowedIds saslJaasServerRoleTokenSignerSecretPath
saslJaasServerSectionName sslFactoryPlugin sslFactoryPluginParams tlsEnabled tlsEnabledWithKeyStore
tlsKeyStore tlsKeyStorePassword tlsKeyStoreType tlsProvider
tlsTrustStorePassword tlsTrustStoreType
webServiceHaProxyProtocolEnabled webServiceTlsProvider webServiceTrustXForwardedFor
"""
TUNING: Final = frozenset(_TUNING.split())
