"""Authentication of clients at CONNECT, and who they are from then on.

The credentials of a connected client: how long they count, and how newer ones replace them.

    credentials  event                                  action                        next
    valid        any command                            handled
    expired      command, refresh is possible           AUTH_CHALLENGE, command held  challenged
    expired      check, refresh is possible             AUTH_CHALLENGE                challenged
    expired      command or check, refresh impossible   ERROR, left
    challenged   PING, PONG                             handled                       challenged
    challenged   other command                          held; ERROR, left, if many    challenged
    challenged   AUTH_RESPONSE, valid, the same role    held commands handled         valid
    challenged   AUTH_RESPONSE, otherwise               ERROR, left
    challenged   check                                  ERROR, left
    valid        AUTH_RESPONSE                          ERROR, left

A command never counts under expired credentials. Pulsar's broker serves commands until its next
check; it sends the same challenge (``refreshAuthenticationCredentials`` in
https://github.com/apache/pulsar/blob/master/pulsar-broker/src/main/java/org/apache/pulsar/broker/service/ServerCnx.java).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.api.binary.enums import AuthMethod
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    CommandAuthResponse,
    CommandConnect,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)
from broker_ctl.security.authentication import Authenticator, Evidence, Principal
from broker_ctl.security.authorization import AuthorizationPolicy, Client
from broker_ctl.security.certificates.peer_certificate import PeerCertificate

# The original principals that proxies name: in CONNECT, and in commands.
#
# Pulsar's proxy says for whom it acts when it connects. Its first releases shared a connection
# among their clients, and said so in each command; brokers of today ignore what a command says,
# and grant it what the principal of CONNECT may. Here a command that names another principal
# needs the right of both.
#
# Source: ``handleConnect`` and ``authenticateOriginalData`` in
# https://github.com/apache/pulsar/blob/master/pulsar-broker/src/main/java/org/apache/pulsar/broker/service/ServerCnx.java


# Commands that may name an original principal; its fields have the same names in all of them.
NamesOriginal = CommandConnect | CommandLookupTopic | CommandPartitionedTopicMetadata

_METHOD: Final = "token"


@dataclass(frozen=True, slots=True)
class OriginalPrincipal:
    """For whom a proxy acts; ``role`` is empty: a client acts for itself.

    Attributes:
        expires_at_s: Unix time at which the proof of the role ends; None: it has none, or it does
            not expire.
    """

    role: str = ""
    expires_at_s: float | None = None

    def limit(self, principal: Principal) -> Principal:
        """The principal of a connection, which ends when the first of both proofs does."""
        ends = [end for end in (principal.expires_at_s, self.expires_at_s) if end is not None]
        return replace(principal, expires_at_s=min(ends, default=None))


class OriginalPrincipalRefused(Exception):
    """A client may not name this original principal, or has to name one; the text says why."""


def original_principal_of(
    command: NamesOriginal, role: str, policy: AuthorizationPolicy, authenticator: Authenticator
) -> OriginalPrincipal:
    """The original principal of a command that a client with this role sends.

    Raises:
        OriginalPrincipalRefused: see there.
    """
    named: object = command.original_principal
    if not isinstance(named, str):
        # So protobuf shows bytes that do not decode.
        raise OriginalPrincipalRefused("the original principal is not UTF-8")
    original = OriginalPrincipal(named)
    if named and policy.authenticates_original:
        proven = _authenticate(command, authenticator)
        original = OriginalPrincipal(proven.role, proven.expires_at_s)
    error = policy.original_principal_error(role, original.role)
    if error is not None:
        raise OriginalPrincipalRefused(error)
    return original


def clients_of(
    command: NamesOriginal,
    client: Client,
    policy: AuthorizationPolicy,
    authenticator: Authenticator | None,
) -> tuple[Client, ...]:
    """The clients that all need the right to a command; mostly only that of the connection.

    Raises:
        OriginalPrincipalRefused: see there.
    """
    if not command.original_principal or authenticator is None:
        return (client,)
    original = original_principal_of(command, client.role, policy, authenticator).role
    if original == client.original:
        return (client,)
    return (client, Client(client.role, original))


def _authenticate(command: NamesOriginal, authenticator: Authenticator) -> Principal:
    """The principal that the credentials of the original client prove, whatever the proxy says."""
    if command.original_auth_method != _METHOD:
        raise OriginalPrincipalRefused(
            f"the original principal has to authenticate by {_METHOD!r}, not by "
            f"{command.original_auth_method!r:.40}"
        )
    credentials: object = command.original_auth_data
    principal = None
    if isinstance(credentials, str):
        principal = authenticator.authenticate(Evidence(credentials.encode()))
    if principal is None:
        raise OriginalPrincipalRefused("the token of the original principal is not known")
    return principal


# Authentication of clients at CONNECT, and again when their tokens expire.


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


# A client that waits for the challenge has few requests; each is at most a frame.
MAX_HELD: Final = 128


class Credentials:
    """Those of one connection. Without authentication nothing expires."""

    def __init__(self, admitted: Admitted) -> None:
        self._principal = admitted.principal
        self.can_refresh: Final = admitted.can_refresh
        self.is_challenged = False
        self._held: list[bytes] = []

    @property
    def can_expire(self) -> bool:
        """Whether they have an end."""
        return self._principal is not None and self._principal.expires_at_s is not None

    @property
    def role(self) -> str:
        """The role that they prove; empty: none is needed."""
        return "" if self._principal is None else self._principal.role

    @property
    def proof(self) -> str:
        """What proves it."""
        return "" if self._principal is None else self._principal.proof.value

    def is_expired(self, now_s: float) -> bool:
        """Whether they have ended at this Unix time."""
        return self._principal is not None and self._principal.is_expired(now_s)

    def hold(self, command: bytes) -> bool:
        """Keep a command until there are newer credentials; whether there was room."""
        if len(self._held) >= MAX_HELD:
            return False
        self._held.append(command)
        return True

    def renew(self, principal: Principal) -> tuple[bytes, ...]:
        """Replace them; returns the commands that were held."""
        self._principal, self.is_challenged = principal, False
        held, self._held = tuple(self._held), []
        return held


class RefreshTimer:
    """Calls ``check`` when ``every_s`` have passed since it was restarted."""

    def __init__(self, every_s: float, check: Callable[[], None]) -> None:
        self._every_s = every_s
        self._check = check
        self._handle: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """Call after the whole time from now on, once."""
        self.cancel()
        self._handle = asyncio.get_running_loop().call_later(self._every_s, self._check)

    def cancel(self) -> None:
        """Do not call."""
        if self._handle is not None:
            self._handle.cancel()
