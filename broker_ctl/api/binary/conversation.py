"""What a client and the server say to each other, as a state machine without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Any, Final

from google.protobuf.message import DecodeError

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.binary.handshake import MAX_HELD, TOKEN, Admitted, Credentials, admit, readmit
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
)
from broker_ctl.api.binary.refusal_audit import RefusalAudit, RefusedSender
from broker_ctl.api.binary.replies import MalformedFrame
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.kinds import Counter
from broker_ctl.security.authorization import Client
from broker_ctl.security.certificates.peer_certificate import PeerCertificate
from broker_ctl.security.client_limits import FailureDelays, RequestRates

# A client's connection as a state machine: which command is allowed when, and what it causes.


class ConversationState(StrEnum):
    """State of the connection. CLOSED: nothing is read any more."""

    NEW = "new"
    CONNECTED = "connected"
    CLOSED = "closed"


class ClientCommand(StrEnum):
    """Commands of clients, by how they are handled."""

    CONNECT = "connect"
    PING = "ping"
    PONG = "pong"
    AUTH_RESPONSE = "auth response"
    REQUEST = "request"
    UNSERVED = "unserved"
    FOREIGN = "foreign"


class Act(Enum):
    """What is done about it."""

    SHAKE_HANDS = auto()
    ANSWER_PING = auto()
    NOTHING = auto()
    REFRESH = auto()
    ENQUEUE = auto()
    REFUSE = auto()
    LEAVE = auto()


# Commands that only a server sends.
OF_SERVERS: Final = frozenset(
    {
        CommandType.CONNECTED,
        CommandType.SEND_RECEIPT,
        CommandType.SEND_ERROR,
        CommandType.MESSAGE,
        CommandType.SUCCESS,
        CommandType.ERROR,
        CommandType.PRODUCER_SUCCESS,
        CommandType.REACHED_END_OF_TOPIC,
        CommandType.ACTIVE_CONSUMER_CHANGE,
        CommandType.AUTH_CHALLENGE,
        CommandType.WATCH_TOPIC_LIST_SUCCESS,
        CommandType.WATCH_TOPIC_UPDATE,
        CommandType.TOPIC_MIGRATED,
        *(kind for kind in CommandType if kind.name.endswith("_RESPONSE")),
    }
) - {CommandType.AUTH_RESPONSE}
_COMMANDS: Final[Mapping[int, ClientCommand]] = {
    **{kind.value: ClientCommand.FOREIGN for kind in OF_SERVERS},
    CommandType.CONNECT: ClientCommand.CONNECT,
    CommandType.PING: ClientCommand.PING,
    CommandType.PONG: ClientCommand.PONG,
    CommandType.AUTH_RESPONSE: ClientCommand.AUTH_RESPONSE,
    CommandType.LOOKUP: ClientCommand.REQUEST,
    CommandType.PARTITIONED_METADATA: ClientCommand.REQUEST,
    CommandType.GET_TOPICS_OF_NAMESPACE: ClientCommand.REQUEST,
}
# A pair that is not here is out of order: LEAVE.
_ACTS: Final[Mapping[tuple[ConversationState, ClientCommand], Act]] = {
    (ConversationState.NEW, ClientCommand.CONNECT): Act.SHAKE_HANDS,
    (ConversationState.CONNECTED, ClientCommand.PING): Act.ANSWER_PING,
    (ConversationState.CONNECTED, ClientCommand.PONG): Act.NOTHING,
    (ConversationState.CONNECTED, ClientCommand.AUTH_RESPONSE): Act.REFRESH,
    (ConversationState.CONNECTED, ClientCommand.REQUEST): Act.ENQUEUE,
    (ConversationState.CONNECTED, ClientCommand.UNSERVED): Act.REFUSE,
}


def act_on(state: ConversationState, kind: int) -> Act:
    """What to do about a command; one of a newer release is a request that is not served."""
    return _ACTS.get((state, _COMMANDS.get(kind, ClientCommand.UNSERVED)), Act.LEAVE)


# Replies that need no lookup: commands in, frames out, without I/O.


# A command's own message is the field with the number of its type.
FIELDS: Final = {
    field.number: field.name for field in BaseCommand.DESCRIPTOR.fields if field.message_type
}
_KINDS: Final = {kind.value: kind for kind in CommandType}
_OK: Final = "ok"
_UNKNOWN: Final = "unknown"
_AUTHENTICATION: Final = ServerError.AuthenticationError
# What needs no valid token, while a newer one may come.
_FREE: Final = frozenset({Act.REFRESH, Act.ANSWER_PING, Act.NOTHING, Act.LEAVE})


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A worker must find the reply."""

    kind: CommandType
    command: Any
    data: bytes


@dataclass(frozen=True, slots=True)
class Challenge:
    """A frame by which the client is asked for newer credentials; it has limited time."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Resume:
    """Commands that had to wait for newer credentials."""

    commands: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """The last frame to this client.

    Attributes:
        delay_s: how long the frame waits; see `FailureDelays`.
    """

    frame: bytes
    delay_s: float = 0.0


# What to do about a command; bytes are a frame to send; None: nothing.
Outcome = bytes | Enqueue | Challenge | Resume | Leave | None


class Conversation:
    """One client's state; see `connection` for the table. Whatever is settled here is counted.

    Args:
        rates: None: there is no limit.

    Attributes:
        certificate: the client's; None: it has shown none, or none that proves anything.
        origin: its address; see `origins`.
    """

    def __init__(
        self,
        rules: BinaryRules,
        rates: RequestRates | None,
        failures: FailureDelays,
        commands: Counter,
    ) -> None:
        self._rules = rules
        self._rates = rates
        self._failures = failures
        self._commands = commands
        self._audit = RefusalAudit(rules.audit, rules.wall_ms)
        self.state = ConversationState.NEW
        self.client: Client | None = None
        self.certificate: PeerCertificate | None = None
        self.credentials = Credentials(Admitted(None))
        self.origin = ""
        self._connect: CommandConnect | None = None

    @property
    def may_be_ready(self) -> bool:
        """Whether nothing but the right of a LOOKUP has to be judged before it is answered."""
        is_connected = self.state is ConversationState.CONNECTED
        return is_connected and self._rates is None and not self._is_expired()

    def receive(self, data: bytes) -> Outcome:
        """What to do about a command; bytes are a frame to send; None: nothing.

        Raises:
            MalformedFrame: it is not a command.
        """
        command = _read(data)
        act = act_on(self.state, command.type)
        if self._is_expired() and not (self.credentials.can_refresh and act in _FREE):
            return self._delay(data)
        if act is Act.ENQUEUE:
            request = Enqueue(_KINDS[command.type], _own_part(command), data)
            return request if self._rates is None else self._limit(request, self._rates)
        return self._settle(command, act)

    def _settle(self, command: BaseCommand, act: Act) -> bytes | Resume | Leave | None:
        name = _name_of(command)
        match act:
            case Act.SHAKE_HANDS:
                return self._shake_hands(_own_part(command))
            case Act.ANSWER_PING | Act.NOTHING:
                self._commands.add(name, _OK)
                return replies.PONG if act is Act.ANSWER_PING else None
            case Act.REFRESH:
                return self._refresh(_own_part(command))
            case Act.REFUSE:
                self._commands.add(name, ServerError.NotAllowedError.name)
                return _refusal(command, name)
            case _:
                self._commands.add(name, "out of order")
                return self.leave(f"{name} is not allowed while the client is {self.state}")

    def _limit(self, request: Enqueue, rates: RequestRates) -> Enqueue | bytes:
        """The request, or the refusal of one too many."""
        try:
            rates.spend(self.origin)
            if self.client is not None:
                rates.spend_of_role(self.client.acting_role)
        except TooManyRequests as error:
            why = ServerError.TooManyRequests
            self._commands.add(request.kind.name, why.name)
            self._audit.refuse_request(
                RefusedSender(self.origin, self.client), request, why, str(error)
            )
            return replies.failure(request.kind, request.command.request_id, why, str(error))
        return request

    def check_credentials(self) -> Challenge | Leave | None:
        """What to do about the client's credentials now, whether it says something or not."""
        if not self._is_expired():
            return None
        if self.credentials.is_challenged:
            return self._refuse("no newer token came in time")
        return self._challenge()

    @property
    def _now_s(self) -> float:
        return self._rules.wall_ms() / 1000

    def _is_expired(self) -> bool:
        credentials = self.credentials
        return credentials.can_expire and credentials.is_expired(self._now_s)

    def _challenge(self) -> Challenge | Leave:
        if not self.credentials.can_refresh:
            return self._refuse(f"the {self.credentials.proof} of the client has expired")
        self.credentials.is_challenged = True
        spoken = 0 if self._connect is None else self._connect.protocol_version
        return Challenge(replies.auth_challenge(self._rules.version, spoken, TOKEN))

    def _delay(self, data: bytes) -> Challenge | Leave | None:
        """Let a command wait for newer credentials."""
        if self.credentials.can_refresh and not self.credentials.hold(data):
            return self.leave(f"more than {MAX_HELD} commands without a newer token")
        return None if self.credentials.is_challenged else self._challenge()

    def _refresh(self, answer: CommandAuthResponse) -> Resume | Leave:
        authenticator, connect = self._rules.authenticator, self._connect
        name = CommandType.AUTH_RESPONSE.name
        if authenticator is None or connect is None or not self.credentials.is_challenged:
            self._commands.add(name, "out of order")
            return self.leave(f"{name} is not allowed without a challenge")
        found = readmit(answer, self.credentials.role, authenticator, self._now_s)
        if isinstance(found, str):
            self._commands.add(name, _AUTHENTICATION.name)
            return self._refuse(found)
        self._commands.add(name, _OK)
        # By this token the client is judged when tokens or keys are replaced.
        connect.auth_data = answer.response.auth_data
        return Resume(self.credentials.renew(found))

    def malformed(self, error: MalformedFrame) -> Leave:
        """Nothing that follows can be read."""
        self._commands.add(_UNKNOWN, "malformed")
        return self.leave(f"no command of Pulsar's protocol: {error}")

    def leave(self, reason: str, why: ServerError = ServerError.NotAllowedError) -> Leave:
        """The frames that say why; the caller then closes the connection."""
        return Leave(replies.error(replies.NO_REQUEST, why, reason))

    def _refuse(self, reason: str) -> Leave:
        """The end of a client that has not proven its role."""
        self._audit.refuse_connection(
            RefusedSender(self.origin, self.client), _AUTHENTICATION, reason
        )
        return self.leave(reason, _AUTHENTICATION)

    def recheck(self) -> Leave | None:
        """Judge the client by the tokens and keys of now; None: it may stay."""
        rules = self._rules
        if self._connect is None or self.client is None:
            return None
        if self._is_expired() and self.credentials.can_refresh:
            # The answer to the challenge is judged by them.
            return None
        found = admit(self._connect, rules.authenticator, rules.policy, self.certificate)
        if not isinstance(found, str) and found.client == self.client:
            return None
        reason = f"the {self.credentials.proof} of the client was revoked"
        return self.leave(reason, _AUTHENTICATION)

    def _shake_hands(self, connect: CommandConnect) -> bytes | Leave:
        rules = self._rules
        found = admit(connect, rules.authenticator, rules.policy, self.certificate)
        if isinstance(found, str):
            self._commands.add(CommandType.CONNECT.name, _AUTHENTICATION.name)
            delay_s = self._failures.record(self.origin, "binary")
            return replace(self._refuse(found), delay_s=delay_s)
        self.client, self.credentials = found.client, Credentials(found)
        self._connect = connect
        self._commands.add(CommandType.CONNECT.name, _OK)
        self.state = ConversationState.CONNECTED
        return replies.connected(rules.version, connect.protocol_version, rules.max_message_bytes)


def _read(data: bytes) -> BaseCommand:
    try:
        command = BaseCommand.FromString(data)
    except DecodeError as error:
        raise MalformedFrame("its bytes are not a message") from error
    if not command.IsInitialized():
        raise MalformedFrame("a field is missing that must be there")
    return command


def _own_part(command: BaseCommand) -> Any:
    field = FIELDS[command.type]
    if not command.HasField(field):
        raise MalformedFrame(f"{_name_of(command)} without its message")
    return getattr(command, field)


def _refusal(command: BaseCommand, name: str) -> bytes:
    reason = f"{name} is not served here; a lookup answers with the broker to connect to"
    if command.type in FIELDS:
        own = getattr(command, FIELDS[command.type])
        if own.HasField("request_id"):
            return replies.refusal(_KINDS[command.type], own.request_id, reason)
    return replies.error(replies.NO_REQUEST, ServerError.NotAllowedError, reason)


def _name_of(command: BaseCommand) -> str:
    kind = _KINDS.get(command.type)
    return _UNKNOWN if kind is None else kind.name
