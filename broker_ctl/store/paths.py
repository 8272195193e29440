"""Every znode path, built here and nowhere else.

Pulsar's are its own, byte for byte (docs: pulsar-paths); what Pulsar has no place
for lies under ``/broker-ctl``. Whatever comes from outside (broker ids, names of clusters) is
checked before it becomes a step of a path.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import InvalidName
from broker_ctl.store.path_rules import is_usable_name

# Roots of what is listed or watched.
OWNERSHIP: Final = "/namespace"
POLICIES: Final = "/admin/policies"
LOCAL_POLICIES: Final = "/admin/local-policies"
PARTITIONED_TOPICS: Final = "/admin/partitioned-topics"
CLUSTERS: Final = "/admin/clusters"
CONFIGURATION: Final = "/admin/configuration"
# While this node exists, Pulsar refuses changes of policies.
POLICIES_READ_ONLY: Final = "/admin/flags/policies-readonly"
LOAD_REPORTS: Final = "/loadbalance/brokers"
BUNDLE_DATA: Final = "/loadbalance/bundle-data"
BROKER_TIME_AVERAGES: Final = "/loadbalance/broker-time-average"
RESOURCE_QUOTAS: Final = "/loadbalance/resource-quota"
DEFAULT_RESOURCE_QUOTA: Final = f"{RESOURCE_QUOTAS}/default"
# Where the modular manager of Pulsar 2.9 looked for quotas.
OLD_RESOURCE_QUOTAS: Final = f"{RESOURCE_QUOTAS}/namespace"
# Owners, where the extensible manager keeps them in the metadata store and not in a topic.
SERVICE_UNITS: Final = "/service_unit_state"
# The Simple manager's thresholds, as operators override them.
SIMPLE_SETTINGS: Final = "/loadbalance/settings"

# How far a Pulsar cluster has migrated its metadata from this store to another.
METADATA_MIGRATION: Final = "/pulsar/migration-coordinator/migration"
# Its coordinator waits until every node below has been deleted by its owner.
MIGRATION_PARTICIPANTS: Final = "/pulsar/migration-coordinator/participants"

OWN_NODES: Final = "/broker-ctl"
REGISTRATIONS: Final = "/broker-ctl/brokers"
LEASES: Final = "/broker-ctl/leases"
MOVES: Final = "/broker-ctl/moves"
RINGS: Final = "/broker-ctl/rings"
DRAINS: Final = "/broker-ctl/drain"
MAINTENANCE: Final = "/broker-ctl/maintenance"
PAUSE: Final = "/broker-ctl/pause"
CLUSTER_NAME: Final = "/broker-ctl/cluster"
PLANS: Final = "/broker-ctl/plans"
ROLLOUT: Final = "/broker-ctl/rollout"
DECISIONS: Final = "/broker-ctl/decisions"
LOST: Final = "/broker-ctl/lost"


@dataclass(frozen=True, slots=True)
class ElectionName:
    """What can be elected to: an ephemeral node, and the epoch that grows with each holder."""

    name: str
    node_path: str
    epoch_path: str


LOADBALANCE_ELECTION: Final = ElectionName(
    "loadbalance", "/loadbalance/leader", "/broker-ctl/lead-epoch"
)
CONTROLLER_ELECTION: Final = ElectionName("controller", "/controller", "/controller_epoch")
# Beside real Pulsar brokers, which hold /loadbalance/leader themselves. The epoch is that of the
# loadbalance election: both give the same orders, so each must fence the other.
ATTACH_ELECTION: Final = ElectionName("attach", "/broker-ctl/leader", "/broker-ctl/lead-epoch")


def _below(root: str, name: str) -> str:
    if not is_usable_name(name):
        raise InvalidName(f"{name!r} cannot be a name below {root}")
    return f"{root}/{name}"


def name_below(root: str, path: str) -> str | None:
    """The name of a direct child of ``root``, None for any other path."""
    name = path.removeprefix(f"{root}/")
    return None if name == path or not name or "/" in name else name


def _namespace_below(root: str, path: str) -> Namespace | None:
    key = path.removeprefix(f"{root}/")
    try:
        return None if key == path else Namespace.parse(key)
    except InvalidName:
        return None


# Ownership.


# Lookups ask for the paths of the same bundles and namespaces again and again; a bundle's hash is
# computed once, its text would be formatted each time.
@lru_cache(maxsize=1 << 16)
def ownership(bundle: Bundle) -> str:
    """The ephemeral node of a bundle's owner."""
    return f"{OWNERSHIP}/{bundle}"


def ownership_of(namespace: Namespace) -> str:
    """Parent of the ownership nodes of one namespace."""
    return f"{OWNERSHIP}/{namespace}"


def owned_bundle(path: str) -> Bundle | None:
    """The bundle of an ownership node, None for any other path, its parents among them."""
    key = path.removeprefix(f"{OWNERSHIP}/")
    try:
        bundle = None if key == path else Bundle.parse(key)
    except InvalidName:
        return None
    # 0xABCDEF00 parses, but Pulsar writes lower case: two paths must not name one bundle.
    return bundle if bundle is None or ownership(bundle) == path else None


# Policies and configuration.


@lru_cache(maxsize=4096)
def policies(namespace: Namespace) -> str:
    """A namespace's policies, in the configuration store."""
    return f"{POLICIES}/{namespace}"


@lru_cache(maxsize=4096)
def tenant(name: str) -> str:
    """A tenant; its children are its namespaces."""
    return _below(POLICIES, name)


def policies_namespace(path: str) -> Namespace | None:
    """The namespace of a policies node, None for any other path."""
    return _namespace_below(POLICIES, path)


@lru_cache(maxsize=4096)
def local_policies(namespace: Namespace) -> str:
    """A namespace's ring, and what else is local to the cluster."""
    return f"{LOCAL_POLICIES}/{namespace}"


def local_policies_namespace(path: str) -> Namespace | None:
    """The namespace of a local-policies node, None for any other path."""
    return _namespace_below(LOCAL_POLICIES, path)


def partitioned_topics(namespace: Namespace, domain: str) -> str:
    """Parent of a namespace's partitioned topics of one domain, in the configuration store."""
    return _below(f"{PARTITIONED_TOPICS}/{namespace}", domain)


def partitioned_topic(topic: Topic) -> str:
    """The number of partitions of a topic; the local name is encoded as Java's URLEncoder does."""
    local = quote_plus(topic.local, safe="*").replace("~", "%7E")
    return _below(partitioned_topics(topic.namespace, topic.domain), local)


def partitioned_topic_of(path: str) -> Topic | None:
    """The topic of such a node, None for any other path."""
    try:
        tenant_name, name, domain, local = path.removeprefix(f"{PARTITIONED_TOPICS}/").split("/")
        namespace = Namespace.parse(f"{tenant_name}/{name}")
        topic = Topic.of(domain, namespace, unquote_plus(local))
        # Two paths must not name one topic, so only the canonical encoding counts.
        return topic if partitioned_topic(topic) == path else None
    except (InvalidName, ValueError):
        return None


def cluster(name: str) -> str:
    """A cluster's record."""
    return _below(CLUSTERS, name)


def isolation_policies(cluster_name: str) -> str:
    """A cluster's namespace isolation policies."""
    return f"{cluster(cluster_name)}/namespaceIsolationPolicies"


def failure_domains(cluster_name: str) -> str:
    """Parent of a cluster's failure domains."""
    return f"{cluster(cluster_name)}/failureDomain"


def failure_domain(cluster_name: str, domain: str) -> str:
    """The brokers of one failure domain."""
    return _below(failure_domains(cluster_name), domain)


# Load.


def load_report(broker_id: str) -> str:
    """A broker's ephemeral load report, by which Pulsar knows that it lives."""
    return _below(LOAD_REPORTS, broker_id)


def bundle_data(bundle: Bundle) -> str:
    """A bundle's averages, as the leader keeps them."""
    return f"{BUNDLE_DATA}/{bundle}"


def broker_time_average(broker_id: str) -> str:
    """A broker's averages, as the leader keeps them."""
    return _below(BROKER_TIME_AVERAGES, broker_id)


def resource_quota(bundle: Bundle) -> str:
    """A bundle's quota."""
    return f"{RESOURCE_QUOTAS}/{bundle}"


def old_resource_quota(bundle: Bundle) -> str:
    """A bundle's quota, as the modular manager of Pulsar 2.9 read it."""
    return f"{OLD_RESOURCE_QUOTAS}/{bundle}"


# Ours.


def registration(broker_id: str) -> str:
    """The ephemeral registration of a broker-ctl process."""
    return _below(REGISTRATIONS, broker_id)


def lease(broker_id: str) -> str:
    """The node that a broker-ctl process writes to prove that its session lives."""
    return _below(LEASES, broker_id)


def move(move_id: str) -> str:
    """The reservation of one move."""
    return _below(MOVES, move_id)


def ring_generation(namespace: Namespace) -> str:
    """The node that counts a namespace's rings, over all that it ever had."""
    return f"{RINGS}/{namespace}"


def drain(broker_id: str) -> str:
    """Says that a broker is to be drained."""
    return _below(DRAINS, broker_id)


def maintenance_window(broker_id: str) -> str:
    """A drain of a broker that begins later."""
    return _below(MAINTENANCE, broker_id)


def plan(plan_id: str) -> str:
    """A plan that an operator approved."""
    return _below(PLANS, plan_id)


def plan_progress(plan_id: str) -> str:
    """How far it has come: small, since it is written after each step."""
    return f"{plan(plan_id)}/progress"


def decisions(number: int) -> str:
    """A node of the history of decisions; numbers grow."""
    return f"{DECISIONS}/{number:010}"
