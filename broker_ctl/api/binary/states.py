"""A client's connection as a state machine: which command is allowed when, and what it causes."""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Final

from broker_ctl.api.binary.enums import CommandType


class State(StrEnum):
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
_ACTS: Final[Mapping[tuple[State, ClientCommand], Act]] = {
    (State.NEW, ClientCommand.CONNECT): Act.SHAKE_HANDS,
    (State.CONNECTED, ClientCommand.PING): Act.ANSWER_PING,
    (State.CONNECTED, ClientCommand.PONG): Act.NOTHING,
    (State.CONNECTED, ClientCommand.AUTH_RESPONSE): Act.REFRESH,
    (State.CONNECTED, ClientCommand.REQUEST): Act.ENQUEUE,
    (State.CONNECTED, ClientCommand.UNSERVED): Act.REFUSE,
}


def act_on(state: State, kind: int) -> Act:
    """What to do about a command; one of a newer release is a request that is not served."""
    return _ACTS.get((state, _COMMANDS.get(kind, ClientCommand.UNSERVED)), Act.LEAVE)
