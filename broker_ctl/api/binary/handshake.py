"""Authentication of clients at CONNECT, and again when their tokens expire."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.api.binary.enums import AuthMethod
from broker_ctl.api.binary.original_principals import (
    OriginalPrincipalRefused,
    original_principal_of,
)
from broker_ctl.api.binary.pulsar_commands_pb2 import CommandAuthResponse, CommandConnect
from broker_ctl.security.authentication import Authenticator, Evidence
from broker_ctl.security.authorization.authorization import Client
from broker_ctl.security.authorization.policy import AuthorizationPolicy
from broker_ctl.security.certificates.peer_certificate import PeerCertificate
from broker_ctl.security.principal import Principal

# Of Pulsar's AuthenticationToken and AuthenticationTls.
TOKEN: Final = "token"  # noqa: S105  # a method, no secret
_TLS: Final = "tls"
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that may stay.

    Attributes:
        client: None: clients need not authenticate.
        principal: who it has proven to be; None: the same.
        can_refresh: whether it can prove its role again during the connection. For the client of a
            proxy only the proxy could, and has no newer token.
    """

    client: Client | None
    principal: Principal | None = None
    can_refresh: bool = False


def admit(
    connect: CommandConnect,
    authenticator: Authenticator | None,
    policy: AuthorizationPolicy,
    certificate: PeerCertificate | None = None,
) -> Admitted | str:
    """Judge a CommandConnect; a text is the reason for which it is refused.

    With an authenticator, a client needs a token or a certificate of any role: each of its requests
    is authorized. Without, its token is ignored.
    """
    if authenticator is None:
        return Admitted(None)
    method = _method_of(connect)
    if method == TOKEN:
        principal = authenticator.authenticate(Evidence(connect.auth_data))
    elif method == _TLS:
        principal = authenticator.authenticate(Evidence(certificate=certificate))
    else:
        return f"authentication by {TOKEN!r} or {_TLS!r} is wanted, not by {method!r:.40}"
    if principal is None:
        return "a known token is wanted" if method == TOKEN else _no_role(certificate)
    try:
        original = original_principal_of(connect, principal.role, policy, authenticator)
    except OriginalPrincipalRefused as error:
        return str(error)
    if connect.proxy_version and not policy.may_be_proxy(principal.role):
        return f"role {principal.role} is not in proxyRoles and cannot name a version of a proxy"
    return Admitted(
        Client(principal.role, original.role),
        original.limit(principal),
        can_refresh=method == TOKEN
        and not original.role
        and connect.feature_flags.supports_auth_refresh,
    )


def readmit(
    answer: CommandAuthResponse, role: str, authenticator: Authenticator, now_s: float
) -> Principal | str:
    """Judge the answer to a challenge; a text is the reason for which it is refused.

    A connection keeps its role.
    """
    response = answer.response
    if response.auth_method_name != TOKEN:
        return f"authentication by {TOKEN!r} is wanted, not by {response.auth_method_name!r:.40}"
    principal = authenticator.authenticate(Evidence(response.auth_data))
    if principal is None or principal.is_expired(now_s):
        return "a known token that has not expired is wanted"
    return principal if principal.role == role else f"the role of a connection stays {role}"


def _no_role(certificate: PeerCertificate | None) -> str:
    if certificate is None:
        return "a client certificate of a trusted authority is wanted"
    return "the client certificate proves no role"


def _method_of(connect: CommandConnect) -> str:
    # A name that is not UTF-8 is printed as bytes, and is not a known one.
    if connect.auth_method_name:
        return connect.auth_method_name
    # Old clients name it by a number.
    is_old = connect.auth_method in {AuthMethod.YCA_V1, AuthMethod.ATHENS}
    return AuthMethod(connect.auth_method).name.lower() if is_old else _NONE
