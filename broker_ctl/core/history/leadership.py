"""Rows of sessions, leadership, and the leader's settings and memory."""

from enum import StrEnum
from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Doc


class SessionEventRow(NamedTuple):
    """An event of the writer's session (core/machines/session.py)."""

    event: Annotated[str, Doc("one of core.session.Action")]
    state: Annotated[str, Doc("state after the event, one of core.session.State")]
    session_epoch: Annotated[int, Doc("number of the writer's sessions since its start")]


class ElectionName(StrEnum):
    """Name of an election."""

    LOAD_BALANCE = "loadbalance"
    CONTROLLER = "controller"


class LeaderEpochRow(NamedTuple):
    """The writer's leadership began or ended."""

    seat: Annotated[str, Doc("loadbalance or controller")]
    is_begin: Annotated[bool, Doc("true: it began; false: it ended")]
    detail: Annotated[str, Doc("why it ended, in words; may be empty")] = ""


class PolicyVersionRow(NamedTuple):
    """Settings of the leader, valid in its epoch until the next row."""

    policy_hash: Annotated[str, Doc("SHA-256 of settings, hexadecimal")]
    load_manager: Annotated[str, Doc("loadManagerClassName")]
    shedding: Annotated[str, Doc("loadBalancerLoadSheddingStrategy; empty: nothing is shed")]
    placement: Annotated[str, Doc("loadBalancerLoadPlacementStrategy")]
    settings: Annotated[str, Doc("JSON object: all settings of the leader, as text by key")]
    release: Annotated[str, Doc("version of broker-ctl")]


class PolicyMemoryRow(NamedTuple):
    """Memory of the shedding strategy after a cycle, within bounds."""

    memory: Annotated[
        str, Doc("JSON object; the whole memory, or only the usage averages by broker")
    ]
    is_whole: Annotated[
        bool, Doc("whether the memory is complete, so that the strategy can resume from it")
    ]
