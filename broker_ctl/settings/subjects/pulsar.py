"""The Pulsar cluster that is balanced from outside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from broker_ctl.settings.addresses import HOST, Address, HttpUrl, StateUrl
from broker_ctl.settings.conditions import ATTACHED, IN_KUBERNETES, given, where
from broker_ctl.settings.schema import Guard, Setting
from broker_ctl.settings.values import InSeconds

# The name by which pods know the API server.
_IN_CLUSTER: Final = HttpUrl("https", Address("kubernetes.default.svc", 443))


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """Pulsar: the cluster of dataPlane=pulsar, which owns its bundles itself."""

    admin_urls: Annotated[
        tuple[HttpUrl, ...],
        Setting(
            "pulsarAdminUrl",
            "URLs of the admin API of the cluster's brokers, tried in turn.",
            allowed="http://host:port",
            used_with=(ATTACHED,),
        ),
    ] = ()
    token_file: Annotated[
        Path | None,
        Setting(
            "pulsarTokenFile",
            "File with the token of a superuser of the cluster.",
            used_with=(ATTACHED,),
            guard=Guard.SECRET,
        ),
    ] = None
    admin_allowed_hosts: Annotated[
        tuple[str, ...],
        Setting(
            "pulsarAdminAllowedHosts",
            "The only hosts to which pulsarTokenFile is sent where the cluster's registry names "
            "them; .example.com stands for every name below it. Empty: the hosts of "
            "pulsarAdminUrl, and other names of a private network: in the same domain of .svc, "
            ".local, .internal, .lan, .localdomain or .test, or without a dot as they are.",
            matches=rf"\.?(?:{HOST})",
            allowed="a host, an IP address or .domain",
            used_with=(ATTACHED,),
        ),
    ] = ()
    trust_certs_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsTrustCertsFilePath",
            "CA certificates (PEM) for verifying the certificates of the cluster's brokers; "
            "empty: the system's.",
            used_with=(ATTACHED,),
            guard=Guard.TRUST,
        ),
    ] = None
    certificate_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsCertificateFilePath",
            "Client certificate (PEM) for requests to the cluster.",
            used_with=(ATTACHED,),
            guard=Guard.TRUST,
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsKeyFilePath",
            "Private key (PEM, not encrypted) of pulsarTlsCertificateFilePath.",
            used_with=(ATTACHED,),
            guard=Guard.SECRET,
        ),
    ] = None
    acts: Annotated[
        bool,
        Setting(
            "pulsarAct",
            "Whether the plan for the cluster is carried out; if false, it is only reported "
            "and recorded.",
            used_with=(ATTACHED,),
        ),
    ] = False
    acts_despite_cluster_balancer: Annotated[
        bool,
        Setting(
            "pulsarActDespiteClusterBalancer",
            "Whether to act although the cluster's own load balancer sheds or splits; the two "
            "then undo each other's decisions.",
            used_with=(ATTACHED, where("pulsarAct", "true")),
        ),
    ] = False
    request_timeout_ms: Annotated[
        int,
        Setting(
            "pulsarRequestTimeoutMillis",
            "Timeout of a request to the admin API; an unload or a split has "
            "namespaceBundleUnloadingTimeoutMs in addition.",
            at_least=1,
            used_with=(ATTACHED,),
        ),
    ] = 5000

    state_url: Annotated[
        StateUrl | None,
        Setting(
            "pulsarStateUrl",
            "Where the daemon keeps pauses, drains, plans and its election if it reads the cluster "
            "by the admin API alone: file: a directory of this machine; kubernetes: a Lease and a "
            "ConfigMap; memory: nowhere, to watch only. Empty: in ZooKeeper, where the cluster is "
            "read, too.",
            allowed="memory:, file:/directory or kubernetes:namespace/name",
            used_with=(ATTACHED,),
        ),
    ] = None
    poll_ms: Annotated[
        int,
        Setting(
            "pulsarAdminPollMillis",
            "Interval at which the brokers are asked for their load and their bundles, if the "
            "cluster is read by the admin API alone.",
            at_least=100,
            used_with=(ATTACHED, given("pulsarStateUrl")),
        ),
    ] = 5000
    kubernetes_url: Annotated[
        HttpUrl,
        Setting(
            "kubernetesApiUrl",
            "URL of the API server of pulsarStateUrl=kubernetes.",
            allowed="https://host:port",
            used_with=(ATTACHED, IN_KUBERNETES),
        ),
    ] = _IN_CLUSTER
    kubernetes_account_directory: Annotated[
        Path,
        Setting(
            "kubernetesServiceAccountDirectory",
            "Directory with the files token, ca.crt and namespace of the pod's service account.",
            used_with=(ATTACHED, IN_KUBERNETES),
            guard=Guard.TRUST,
            files=("token", "ca.crt", "namespace"),
        ),
    ] = Path("/var/run/secrets/kubernetes.io/serviceaccount")

    request_timeout_s = InSeconds("request_timeout_ms")
    poll_s = InSeconds("poll_ms")
