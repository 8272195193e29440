"""Authentication of clients at CONNECT."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.api.binary.enums import AuthMethod
from broker_ctl.api.binary.pulsar_commands_pb2 import CommandConnect
from broker_ctl.security.authentication import Authenticator, Evidence
from broker_ctl.security.authorization.authorization import Client
from broker_ctl.security.authorization.policy import AuthorizationPolicy

_METHOD: Final = "token"
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that may stay.

    Attributes:
        client: None: clients need not authenticate.
    """

    client: Client | None


def admit(
    connect: CommandConnect, authenticator: Authenticator | None, policy: AuthorizationPolicy
) -> Admitted | str:
    """Judge a CommandConnect; a text is the reason for which it is refused.

    With an authenticator, a client needs a token of any role: each of its requests is authorized.
    Without, its token is ignored.
    """
    if authenticator is None:
        return Admitted(None)
    method = _method_of(connect)
    if method != _METHOD:
        return f"authentication by {_METHOD!r} is wanted, not by {method!r:.40}"
    principal = authenticator.authenticate(Evidence(connect.auth_data))
    if principal is None:
        return "a known token is wanted"
    original = connect.original_principal
    if not isinstance(original, str):
        # So protobuf shows bytes that do not decode.
        return "the original principal is not UTF-8"
    error = policy.original_principal_error(principal.role, original)
    return Admitted(Client(principal.role, original)) if error is None else error


def _method_of(connect: CommandConnect) -> str:
    # A name that is not UTF-8 is printed as bytes, and is not a known one.
    if connect.auth_method_name:
        return connect.auth_method_name
    # Old clients name it by a number.
    is_old = connect.auth_method in {AuthMethod.YCA_V1, AuthMethod.ATHENS}
    return AuthMethod(connect.auth_method).name.lower() if is_old else _NONE
