"""Authentication and authorization, and how unsafe settings are allowed."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.security.certificates.certificate_roles import MappingRules
from broker_ctl.settings.addresses import HOST
from broker_ctl.settings.cleartext import CLEARTEXT
from broker_ctl.settings.conditions import (
    AUTHENTICATED,
    AUTHORIZED,
    BROKER_CERTIFICATES,
    CERTIFICATES,
    CLUSTER_KEYS,
    OPENID_PROVIDER,
    OWN_BROKER,
    SIGNED,
    STORE_OFF_LOOPBACK,
    TLS_PROVIDER,
    TOKEN_PROVIDER,
    TOKENS,
    UNGUARDED,
    either,
)
from broker_ctl.settings.schema import Guard, Setting


class AuthenticationProvider(StrEnum):
    """Ways in which clients prove their roles, by the names of Pulsar's classes."""

    TOKEN = TOKEN_PROVIDER
    TLS = TLS_PROVIDER
    OPENID = OPENID_PROVIDER


class SignatureMode(StrEnum):
    """What is done with signatures in ZooKeeper."""

    OFF = "off"
    ACCEPT = "accept"
    REQUIRE = "require"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Security: authentication and authorization, and what is allowed despite its risk."""

    authentication_enabled: Annotated[
        bool,
        Setting(
            "authenticationEnabled",
            "Whether clients and brokers must authenticate.",
        ),
    ] = False
    authentication_providers: Annotated[
        tuple[AuthenticationProvider, ...],
        Setting(
            "authenticationProviders",
            "How clients authenticate: AuthenticationProviderToken accepts static and JSON Web "
            "Tokens, AuthenticationProviderTls client certificates that tlsTrustCertsFilePath "
            "verifies, AuthenticationProviderOpenID tokens of openIDAllowedTokenIssuers. Empty: "
            "none, which is refused with authenticationEnabled.",
            is_off_when_empty=True,
            used_with=(AUTHENTICATED,),
        ),
    ] = (AuthenticationProvider.TOKEN,)
    principal_mapping_rules: Annotated[
        MappingRules | None,
        Setting(
            "tlsPrincipalMappingRules",
            "Roles of client certificates, in the syntax of Kafka's ssl.principal.mapping.rules. "
            "The first rule that matches the SPIFFE ID, or else the distinguished name, gives the "
            "role. Empty: the role is the common name.",
            allowed="a comma-separated list of RULE:pattern/replacement/[LU] and DEFAULT",
            used_with=(CERTIFICATES,),
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        Setting(
            "tokenSecretKeyFile",
            "File with static bearer tokens, the same on all brokers: role:secret on each line, or "
            "role:$sha256$ and the hash of a token.",
            used_with=(TOKENS,),
            guard=Guard.SECRET,
        ),
    ] = None
    super_user_roles: Annotated[
        tuple[str, ...],
        Setting(
            "superUserRoles",
            "Roles that may perform every admin operation.",
            used_with=(AUTHENTICATED,),
        ),
    ] = ()
    viewer_roles: Annotated[
        tuple[str, ...],
        Setting(
            "viewerRoles",
            "Roles that may read what operators read (status, plan, history) and change nothing.",
            used_with=(AUTHENTICATED,),
        ),
    ] = ()
    operator_roles: Annotated[
        tuple[str, ...],
        Setting(
            "operatorRoles",
            "Roles that may do what viewers may, look topics up, move and split bundles, drain "
            "brokers, pause the balancer and propose plans; not approve, configure or delete.",
            used_with=(AUTHENTICATED,),
        ),
    ] = ()
    proxy_roles: Annotated[
        tuple[str, ...],
        Setting(
            "proxyRoles",
            "Roles of proxies. A proxy names the original principal of each request, and both need "
            "the right.",
            used_with=(AUTHENTICATED,),
        ),
    ] = ()
    authenticates_original: Annotated[
        bool,
        Setting(
            "authenticateOriginalAuthData",
            "Whether the original principal of a proxy's binary connection needs a token of its "
            "own, which the proxy forwards.",
            used_with=(AUTHENTICATED, OWN_BROKER),
        ),
    ] = False
    dual_authorization: Annotated[
        bool,
        Setting(
            "dualAuthorizationEnabled",
            "Whether a plan is approved only by another role than the one that has proposed it, "
            "which has to be in operatorRoles or superUserRoles. To look at a plan proposes "
            "nothing.",
            used_with=(AUTHENTICATED,),
        ),
    ] = False
    authorization_enabled: Annotated[
        bool,
        Setting(
            "authorizationEnabled",
            "Whether lookups and reads need a grant: of the admin roles of the tenant, or of the "
            "permissions of the namespace. Without it every authenticated role may look up and "
            "read.",
            used_with=(AUTHENTICATED,),
        ),
    ] = False
    allows_wildcards: Annotated[
        bool,
        Setting(
            "authorizationAllowWildcardsMatching",
            "Whether * at the beginning or the end of a role in the permissions of a namespace "
            "stands for any text.",
            used_with=(AUTHORIZED,),
        ),
    ] = False
    authenticates_metrics: Annotated[
        bool,
        Setting(
            "authenticateMetricsEndpoint",
            "Whether /metrics needs an authenticated role.",
            used_with=(AUTHENTICATED,),
        ),
    ] = False
    cluster_key_file: Annotated[
        Path | None,
        Setting(
            "clusterKeyFile",
            "File with the secret keys of the cluster, the same on all brokers; one a line, in "
            "base64. The first one signs what brokers send each other, all of them verify. Unset, "
            "with authenticationEnabled: keys are derived from the static tokens of super users, "
            "and from tokenSecretKey. A line that says derived stands for these.",
            guard=Guard.SECRET,
        ),
    ] = None
    cluster_key_required: Annotated[
        bool,
        Setting(
            "clusterKeyRequired",
            "Whether commands of brokers are refused that are not signed with the cluster's key, "
            "and HTTP lookups with authoritative=true only count with the leader's proof: to be "
            "set once every broker signs.",
            used_with=(SIGNED,),
        ),
    ] = False
    broker_client_role: Annotated[
        str,
        Setting(
            "brokerClientRole",
            "The role of requests that another broker has signed, or proves with its certificate; "
            "it may give the commands of brokers and nothing else.",
            used_with=(either(SIGNED, BROKER_CERTIFICATES),),
        ),
    ] = "broker"
    znode_signatures: Annotated[
        SignatureMode,
        Setting(
            "znodeSignatures",
            "What brokers do with the signatures, under the cluster's key, of what they say to "
            "each other through ZooKeeper. off: neither write nor check them; accept: write them, "
            "and count and log nodes without a valid one; require: also refuse such nodes.",
            used_with=(CLUSTER_KEYS,),
        ),
    ] = SignatureMode.ACCEPT
    peer_allowed_hosts: Annotated[
        tuple[str, ...],
        Setting(
            "peerAllowedHosts",
            "The only hosts at which this daemon calls other brokers, whatever ZooKeeper says; "
            ".example.com stands for every name below it. Empty: a broker is called at the host "
            "of its id only.",
            matches=rf"\.?(?:{HOST})",
            allowed="a host, an IP address or .domain",
        ),
    ] = ()
    allow_insecure_listener: Annotated[
        bool,
        Setting(
            "allowInsecureListener",
            "Whether the daemon starts although its HTTP server listens off loopback without "
            "authentication.",
            used_with=(UNGUARDED,),
        ),
    ] = False
    allow_cleartext_credentials: Annotated[
        bool,
        Setting(
            "allowCleartextCredentials",
            "Whether the daemon starts although tokens, ZooKeeper's password or the secret of the "
            "broker process would cross a network without TLS.",
            used_with=(CLEARTEXT,),
        ),
    ] = False
    allow_open_metadata_store: Annotated[
        bool,
        Setting(
            "allowOpenMetadataStore",
            "Whether the daemon starts although ZooKeeper servers on other machines let clients "
            "without an identity change its nodes.",
            used_with=(STORE_OFF_LOOPBACK,),
        ),
    ] = False
    accepted_ignored_settings: Annotated[
        tuple[str, ...],
        Setting(
            "acceptIgnoredSecuritySettings",
            "Keys of Pulsar that restrict access and that broker-ctl does not implement, with "
            "which the daemon starts nevertheless.",
        ),
    ] = ()
