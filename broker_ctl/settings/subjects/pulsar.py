"""The Pulsar cluster that is balanced from outside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.conditions import ATTACHED, where
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """Pulsar: the cluster of dataPlane=pulsar, which owns its bundles itself."""

    admin_urls: Annotated[
        tuple[HttpUrl, ...],
        Setting(
            "pulsarAdminUrl",
            "Where the admin API of the cluster's brokers is called; several are tried in turn.",
            allowed="http://host:port",
            used_with=(ATTACHED,),
        ),
    ] = ()
    token_file: Annotated[
        Path | None,
        Setting(
            "pulsarTokenFile",
            "File with the token of a super-user of the cluster.",
            used_with=(ATTACHED,),
        ),
    ] = None
    trust_certs_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsTrustCertsFilePath",
            "Authorities (PEM) that the certificates of the cluster's brokers are checked against; "
            "empty: the system's.",
            used_with=(ATTACHED,),
        ),
    ] = None
    certificate_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsCertificateFilePath",
            "Certificate (PEM) that is shown to the cluster.",
            used_with=(ATTACHED,),
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        Setting(
            "pulsarTlsKeyFilePath",
            "Private key (PEM, not encrypted) of pulsarTlsCertificateFilePath.",
            used_with=(ATTACHED,),
        ),
    ] = None
    acts: Annotated[
        bool,
        Setting(
            "pulsarAct",
            "Carry out what is planned for the cluster; else it is only told and recorded.",
            used_with=(ATTACHED,),
        ),
    ] = False
    acts_despite_cluster_balancer: Annotated[
        bool,
        Setting(
            "pulsarActDespiteClusterBalancer",
            "Act although the cluster sheds or splits by itself: each undoes what the other does.",
            used_with=(ATTACHED, where("pulsarAct", "true")),
        ),
    ] = False
    request_timeout_ms: Annotated[
        int,
        Setting(
            "pulsarRequestTimeoutMillis",
            "Deadline of a question to the admin API; an unload or a split has in addition as long "
            "as namespaceBundleUnloadingTimeoutMs.",
            at_least=1,
            used_with=(ATTACHED,),
        ),
    ] = 5000

    @property
    def request_timeout_s(self) -> float:
        """In seconds."""
        return self.request_timeout_ms / 1000
