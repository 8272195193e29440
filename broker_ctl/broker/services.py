"""The services that every broker runs."""

from dataclasses import dataclass

from broker_ctl.broker.history import History
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.lookup import ClusterRouter
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.ownership.command_handler import BundleCommandHandler
from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.policies.tenants import StoredGrants
from broker_ctl.broker.replicas.partition_leaders import PartitionLeaders
from broker_ctl.dataplane.bundles.interface import DataPlane


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """Built and started by the daemon, served by the API.

    Attributes:
        history: None if nothing is recorded.
    """

    dataplane: DataPlane
    configuration: DynamicConfiguration
    constraints: ConstraintsCache
    policies: Policies
    grants: StoredGrants
    namespaces: Namespaces
    partitioned_topics: PartitionedTopics
    partition_leaders: PartitionLeaders
    home: ClusterRouter
    owners: Owners
    ownership: Ownership
    commands: BundleCommandHandler
    dataplane_watch: DataPlaneWatch
    reporter: LoadReporter
    history: History | None
