"""A ZooKeeper client for asyncio, with recipes whose holders have a token and a lease.

    async with connect("localhost:2181") as client:
        async with Lock(client, "/locks/report") as held:
            await store.write(report, fencing_token=held.token)

It is made of what the control plane uses itself, and needs nothing but aiozk's records of the
protocol. What is named here is public: it changes as CONTRIBUTING says.
"""

from broker_ctl.core.machines.session import SessionState
from broker_ctl.errors import (
    Ambiguous,
    AuthFailed,
    AuthorityLost,
    BadVersion,
    ConnectionLoss,
    HistoryBehind,
    InvalidPath,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    OperationTimeout,
    RetriesUsedUp,
    SessionError,
    SessionExpired,
    SessionMoved,
    StoreClosed,
    StoreError,
    Throttled,
    TooLarge,
    Unsupported,
)
from broker_ctl.store.interface import (
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    SessionEvent,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.access import AclEntry
from broker_ctl.zookeeper.barriers import Barrier, DoubleBarrier
from broker_ctl.zookeeper.changes import Changes, ChildrenWatch, DataWatch
from broker_ctl.zookeeper.client import Client, connect, server_status
from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.locks import Election, Lock, ReadWriteLock, ReentrantLock, Semaphore
from broker_ctl.zookeeper.members import Counter, Party, SetPartitioner
from broker_ctl.zookeeper.queues import Claim, LockingQueue, Queue
from broker_ctl.zookeeper.tree_cache import TreeCache

__all__ = [
    "AclEntry",
    "Ambiguous",
    "AuthFailed",
    "AuthorityLost",
    "BadVersion",
    "Barrier",
    "Change",
    "Changes",
    "Check",
    "ChildrenWatch",
    "Claim",
    "Client",
    "ConnectionLoss",
    "Counter",
    "Create",
    "CreateMode",
    "DataWatch",
    "Delete",
    "DoubleBarrier",
    "Election",
    "Held",
    "HistoryBehind",
    "InvalidPath",
    "Lock",
    "LockingQueue",
    "MultiFailed",
    "NoAuth",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "Notification",
    "OperationTimeout",
    "Party",
    "Queue",
    "ReadWriteLock",
    "ReentrantLock",
    "RetriesUsedUp",
    "Semaphore",
    "SessionError",
    "SessionEvent",
    "SessionExpired",
    "SessionMoved",
    "SessionState",
    "SetData",
    "SetPartitioner",
    "Stat",
    "StoreClosed",
    "StoreError",
    "Throttled",
    "TooLarge",
    "TreeCache",
    "Unsupported",
    "Versioned",
    "connect",
    "server_status",
]
