"""A client's connection as a machine: what it may say when, and what is done about it."""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Final

from broker_ctl.api.binary.enums import CommandType


class State(StrEnum):
    """Where the connection stands. CLOSED: nothing that comes is read any more."""

    NEW = "new"
    CONNECTED = "connected"
    CLOSED = "closed"


class Said(StrEnum):
    """What a client said, as far as it matters."""

    CONNECT = "connect"
    PING = "ping"
    PONG = "pong"
    REQUEST = "request"
    UNSERVED = "unserved"
    FOREIGN = "foreign"


class Act(Enum):
    """What is done about it."""

    SHAKE_HANDS = auto()
    ANSWER_PING = auto()
    NOTHING = auto()
    ASK = auto()
    REFUSE = auto()
    LEAVE = auto()


# What only a server says. A client that says it is none.
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
_SAID: Final[Mapping[int, Said]] = {
    **{kind.value: Said.FOREIGN for kind in OF_SERVERS},
    CommandType.CONNECT: Said.CONNECT,
    CommandType.PING: Said.PING,
    CommandType.PONG: Said.PONG,
    CommandType.LOOKUP: Said.REQUEST,
    CommandType.PARTITIONED_METADATA: Said.REQUEST,
    CommandType.GET_TOPICS_OF_NAMESPACE: Said.REQUEST,
}
# A pair that is not here is out of order: LEAVE.
_ACTS: Final[Mapping[tuple[State, Said], Act]] = {
    (State.NEW, Said.CONNECT): Act.SHAKE_HANDS,
    (State.CONNECTED, Said.PING): Act.ANSWER_PING,
    (State.CONNECTED, Said.PONG): Act.NOTHING,
    (State.CONNECTED, Said.REQUEST): Act.ASK,
    (State.CONNECTED, Said.UNSERVED): Act.REFUSE,
}


def act_on(state: State, kind: int) -> Act:
    """What to do about a command; one of a newer release is a request that is not served."""
    return _ACTS.get((state, _SAID.get(kind, Said.UNSERVED)), Act.LEAVE)
