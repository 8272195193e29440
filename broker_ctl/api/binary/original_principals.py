"""The original principals that proxies name: in CONNECT, and in commands.

Pulsar's proxy says for whom it acts when it connects. Its first releases shared a connection among
their clients, and said so in each command; brokers of today ignore what a command says, and grant
it what the principal of CONNECT may. Here a command that names another principal needs the right
of both.

Source: ``handleConnect`` and ``authenticateOriginalData`` in
https://github.com/apache/pulsar/blob/master/pulsar-broker/src/main/java/org/apache/pulsar/broker/service/ServerCnx.java
"""

from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.api.binary.pulsar_commands_pb2 import (
    CommandConnect,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)
from broker_ctl.security.authentication import Authenticator, Evidence
from broker_ctl.security.authorization.authorization import Client
from broker_ctl.security.authorization.policy import AuthorizationPolicy
from broker_ctl.security.principal import Principal

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
