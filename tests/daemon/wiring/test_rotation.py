"""Files of certificates and secrets that change reach every part that is built of them."""

import random
from pathlib import Path

import pytest
import trustme

from broker_ctl.attach.attached import Attached
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.security.cluster_key import new_key_line
from broker_ctl.settings.conditions import OPENID_PROVIDER
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.daemon.built import changed, seen
from tests.support.security.authority import Issued, issue

# By the files: the settings that name them, what they are for, and where a new one arrives.
CASES = {
    "server": (
        ("webServicePortTls=8443", "tlsTrustCertsFilePath={0.authority}", "{1}", "{2}"),
        {"server-tls"},
        {"ApiRules.tls.authorities"},
    ),
    "peers": (
        ("brokerClientTrustCertsFilePath={0.authority}",),
        {"peer-tls"},
        {"HttpClient._ssl.authorities"},
    ),
    "replication": (
        (
            "brokerId=1",
            "simulatedReplicationTlsEnabled=true",
            "tlsTrustCertsFilePath={0.authority}",
            "{1}",
            "{2}",
        ),
        {"replication-tls"},
        {"ReplicationTls.serving.authorities", "ReplicationTls.calling.authorities"},
    ),
    "zookeeper": (
        ("zookeeperTlsEnabled=true", "zookeeperTlsCaFile={0.authority}"),
        {"zookeeper-tls", "zookeeper-anonymous-tls"},
        {"StoreOptions.tls.authorities", "StoreOptions.anonymous_tls.authorities"},
    ),
    "pulsar": (
        (
            "dataPlane=pulsar",
            "pulsarAdminUrl=https://h",
            "pulsarTlsTrustCertsFilePath={0.authority}",
        ),
        {"pulsar-tls"},
        {"HttpClient._ssl.authorities"},
    ),
    "issuers": (
        (
            "authenticationEnabled=true",
            "clusterKeyFile={3}",
            f"authenticationProviders={OPENID_PROVIDER}",
            "openIDAllowedTokenIssuers=https://issuer.example",
            "openIDAllowedAudiences=brokers",
            "openIDTokenIssuerTrustCertsFilePath={0.authority}",
        ),
        {"issuer-tls", "cluster-keys"},
        {"HttpClient._ssl.authorities"},
    ),
    "data plane": (
        ("dataPlane=webhook", "dataPlaneUrl=http://h", "dataPlaneSecretFile={4}"),
        {"dataplane-secret"},
        {"ApiRules.dataplane_secret", "Authorizer._secret", "HttpClient._token"},
    ),
    "pulsar-token": (
        ("dataPlane=pulsar", "pulsarAdminUrl=https://h", "pulsarTokenFile={4}"),
        {"pulsar-token"},
        {"HttpClient._token"},
    ),
}


def secret_of(files: Issued) -> Path:
    """The file of a secret beside them."""
    return files.authority.with_name("secret")


def write_secret(file: Path, secret: str) -> None:
    file.write_text(f"{secret}\n", encoding="ascii")
    file.chmod(0o600)


def settings_for(case: str, files: Issued) -> Settings:
    own = (f"tlsCertificateFilePath={files.certificate}", f"tlsKeyFilePath={files.key}")
    cluster_key = files.authority.with_name("cluster.key")
    cluster_key.write_text(new_key_line(), encoding="ascii")
    cluster_key.chmod(0o600)
    write_secret(secret_of(files), "the-secret-before-0123456789")
    given = [text.format(files, *own, cluster_key, secret_of(files)) for text in CASES[case][0]]
    return load(None, {}, ["metadataStoreUrl=h", *given])


@pytest.mark.parametrize("case", CASES)
async def test_a_new_authority_or_secret_arrives_wherever_the_file_is_used(
    case: str, tmp_path: Path
) -> None:
    files = issue(tmp_path / "ours")
    settings, around = settings_for(case, files), Environment(SystemClock(), random.Random(1))
    is_attached = case.startswith("pulsar")
    built = Attached(settings, around) if is_attached else Assembly(settings, around)
    assert {one.name for one in around.reloader} == CASES[case][1]
    before = seen(built)
    await around.reloader.check()
    assert not changed(before, seen(built))
    trustme.CA().cert_pem.write_to_path(str(files.authority))
    write_secret(secret_of(files), "the-secret-after-0123456789")
    await around.reloader.check()
    places = {
        place for place in changed(before, seen(built)) if not place.startswith("Reloadable.")
    }
    assert places == CASES[case][2]
