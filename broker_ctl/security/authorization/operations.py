"""The operations that a role may be allowed to perform."""

from enum import StrEnum


class Operation(StrEnum):
    """What a request does to a resource.

    Attributes:
        LOOKUP: find the broker or the partitions of a topic, or list the topics of a namespace.
        READ: read what Pulsar's admin API shows.
        READ_SENSITIVE: read what names roles, or may hold the credentials of a client.
        MONITOR: read what operators see: status, plans, history.
        MOVE: unload and move bundles, and elect leaders of partitions.
        SPLIT: split and merge bundles.
        DRAIN: begin and end the drain of a broker.
        PAUSE: pause and resume the balancer.
        PLAN: propose a plan, or end one.
        APPROVE: have a plan executed.
        CONFIGURE: create resources, and change settings and policies.
        DELETE: delete resources.
        COMMAND: send a command of the leader or the controller to a broker.
    """

    LOOKUP = "lookup"
    READ = "read"
    READ_SENSITIVE = "read sensitive data of"
    MONITOR = "monitor"
    MOVE = "move"
    SPLIT = "split"
    DRAIN = "drain"
    PAUSE = "pause"
    PLAN = "plan"
    APPROVE = "approve"
    CONFIGURE = "configure"
    DELETE = "delete"
    COMMAND = "command"
