"""Terms that the pages explain; a test holds them to the glossary of the documentation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TERMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bundle": "A contiguous range of the hashes of a namespace: the unit of ownership and of "
        "moves. [Pulsar]",
        "decision": "A proposed action of a strategy or an operator, with a reason: assign, "
        "transfer, split, merge, skip.",
        "drain": "To move all bundles off a broker on purpose. [operations]",
        "epoch": "A number that grows with each holder of a role. Lead epoch, controller epoch, "
        "leader epoch. [Kafka] A term is the time of one holder. [Raft]",
        "fencing token": "A number that grows with each owner, so that storage can reject an "
        "earlier owner. In broker-ctl it is the czxid of the owner node.",
        "ISR": "In-sync replicas: those that have all committed records. [Kafka]",
        "leader": "Of the bundles: the broker that holds /loadbalance/leader. [Pulsar] Of a "
        "partition: the replica that accepts writes. [Kafka]",
        "lease": "A right with a deadline. [Gray and Cheriton]",
        "merge": "Two neighbouring bundles become one. Pulsar has no merge.",
        "move": "The transfer of a bundle from one broker to another, by the move protocol.",
        "plan": "An ordered list of decisions, merged within the budgets and checked as a whole. "
        "[Cruise Control: proposal]",
        "ring": "All bundles of a namespace; together they cover all hashes.",
        "session": "A client's relation to the ZooKeeper servers, which may last over several "
        "connections. [ZooKeeper]",
        "split": "The replacement of a bundle by its children. [Pulsar]",
    }
)
