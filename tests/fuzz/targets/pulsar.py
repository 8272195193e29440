"""What a client of Pulsar's binary protocol sends."""

from typing import Final

from broker_ctl.api.binary.conversation import Conversation, ConversationState, Leave
from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.replies import BinaryFrames, MalformedFrame
from broker_ctl.clock import SystemClock
from broker_ctl.instruments.clients import BinaryInstruments, SecurityInstruments
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.client_limits import FailureDelays
from broker_ctl.security.static_tokens import StaticTokens

_TOKENS: Final = StaticTokens.parse("app:a-secret-of-the-app\nproxy:a-secret-of-the-proxy\n")
_POLICY: Final = AuthorizationPolicy(ClusterRoles(proxies=frozenset({"proxy"})), is_enabled=True)
_RULES: Final = BinaryRules("fuzz", Authenticator([_TOKENS]), _POLICY)
_COMMANDS: Final = BinaryInstruments().commands
_FAILURES: Final = FailureDelays(0.0, SystemClock(), SecurityInstruments().authentication_failures)


def commands(data: bytes) -> None:
    """The first byte is where the stream is cut, and whether the client has connected before."""
    if not data:
        return
    cut, stream = data[0] >> 1, data[1:]
    conversation = Conversation(_RULES, None, _FAILURES, _COMMANDS)
    if data[0] & 1:
        conversation.state = ConversationState.CONNECTED
    frames = BinaryFrames()
    try:
        for part in (stream[:cut], stream[cut:]):
            frames.feed(part)
            while (command := frames.next()) is not None:
                if isinstance(conversation.receive(command), Leave):
                    return
    except MalformedFrame as error:
        conversation.malformed(error)
