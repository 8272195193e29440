"""Rows of sessions, leadership, and the leader's settings and memory."""

from enum import StrEnum
from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Tells


class SessionEventRow(NamedTuple):
    """An event of the writer's session (core/machines/session.py)."""

    event: Annotated[str, Tells("one of core.session.Action")]
    state: Annotated[str, Tells("one of core.session.State, after it")]
    session_epoch: Annotated[int, Tells("count of the writer's sessions since its start")]


class ElectionName(StrEnum):
    """Name of an election."""

    LOAD_BALANCE = "loadbalance"
    CONTROLLER = "controller"


class LeaderEpochRow(NamedTuple):
    """The writer's leadership began or ended."""

    seat: Annotated[str, Tells("loadbalance or controller")]
    is_begin: Annotated[bool, Tells("true: it began; false: it ended")]
    detail: Annotated[str, Tells("why it ended, in words; may be empty")] = ""


class PolicyVersionRow(NamedTuple):
    """Settings of the leader, valid in its epoch until the next row."""

    policy_hash: Annotated[str, Tells("SHA-256 of settings, hexadecimal")]
    load_manager: Annotated[str, Tells("loadManagerClassName")]
    shedding: Annotated[str, Tells("loadBalancerLoadSheddingStrategy; empty: nothing is shed")]
    placement: Annotated[str, Tells("loadBalancerLoadPlacementStrategy")]
    settings: Annotated[str, Tells("JSON object: key to text of all that steers the leader")]
    release: Annotated[str, Tells("version of broker-ctl")]


class PolicyMemoryRow(NamedTuple):
    """Memory of the shedding strategy after a cycle, within bounds."""

    memory: Annotated[str, Tells("JSON object; whole, or the usage averages by broker alone")]
    is_whole: Annotated[bool, Tells("the strategy can go on from it")]
