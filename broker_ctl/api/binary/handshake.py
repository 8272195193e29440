"""Authentication of clients at CONNECT."""

from typing import Final

from broker_ctl.api.binary.enums import AuthMethod
from broker_ctl.api.binary.pulsar_commands_pb2 import CommandConnect
from broker_ctl.security.authentication import Authenticator, Evidence

_METHOD: Final = "token"
_NONE: Final = "none"


def why_refused(connect: CommandConnect, authenticator: Authenticator | None) -> str | None:
    """Why a CommandConnect is refused; None: it is welcome.

    With an authenticator, a client needs a token of any role, since it only looks topics up.
    Without, its token is ignored.
    """
    if authenticator is None:
        return None
    method = _method_of(connect)
    if method != _METHOD:
        return f"authentication by {_METHOD!r} is wanted, not by {method!r:.40}"
    if authenticator.authenticate(Evidence(connect.auth_data)) is None:
        return "a known token is wanted"
    return None


def _method_of(connect: CommandConnect) -> str:
    # A name that is not UTF-8 is printed as bytes, and is not a known one.
    if connect.auth_method_name:
        return connect.auth_method_name
    # Old clients name it by a number.
    is_old = connect.auth_method in {AuthMethod.YCA_V1, AuthMethod.ATHENS}
    return AuthMethod(connect.auth_method).name.lower() if is_old else _NONE
