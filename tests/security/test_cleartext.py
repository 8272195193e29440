"""Credentials in the clear off loopback are refused, unless a setting allows them."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.settings.conditions import TLS_PROVIDER
from tests.support.http.certificates import TLS

TLS_PORT = (
    "webServicePortTls=8443",
    f"tlsCertificateFilePath={TLS / 'certificate.pem'}",
    f"tlsKeyFilePath={TLS / 'key.pem'}",
)
OFF_LOOPBACK = "bindAddress=0.0.0.0"
ALLOWED = "allowCleartextCredentials=true"
LOCAL, FOREIGN = "metadataStoreUrl=zk:127.0.0.1:2181", "metadataStoreUrl=zk:zk1:2181"


def check(directory: Path, *overrides: str) -> Result:
    file, secret = directory / "broker.conf", directory / "secret"
    secret.write_text("admin:0123456789abcdef", encoding="ascii")
    secret.chmod(0o600)
    keys = directory / "keys"
    keys.write_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", encoding="ascii")
    keys.chmod(0o600)
    files = {"SECRET": str(secret), "KEYS": str(keys)}
    texts = [re.sub("SECRET|KEYS", lambda found: files[found[0]], each) for each in overrides]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return CliRunner().invoke(main, ["config", "check", str(file)])


AUTHENTICATED = ("authenticationEnabled=true", "tokenSecretKeyFile=SECRET", "superUserRoles=admin")
CERTIFIED = (
    *TLS_PORT,
    "authenticationEnabled=true",
    f"authenticationProviders={TLS_PROVIDER}",
    f"tlsTrustCertsFilePath={TLS / 'certificate.pem'}",
    "clusterKeyFile=KEYS",
)
DIGEST = "zookeeperAuthDigestFile=SECRET"
WEBHOOK = ("dataPlane=webhook", "dataPlaneSecretFile=SECRET")
ATTACHED = ("dataPlane=pulsar", "pulsarTokenFile=SECRET")


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ((LOCAL, OFF_LOOPBACK, *AUTHENTICATED), "webServicePort"),
        # A TLS port beside it does not close the other one.
        ((LOCAL, OFF_LOOPBACK, *AUTHENTICATED, *TLS_PORT), "webServicePort"),
        (
            (
                *(LOCAL, OFF_LOOPBACK, *AUTHENTICATED, *TLS_PORT),
                *("webServicePort=", "lookupServicePort=6651"),
            ),
            "lookupServicePort",
        ),
        ((FOREIGN, DIGEST), "zookeeperAuthDigestFile"),
        ((LOCAL, "configurationMetadataStoreUrl=zk:zk9:2181", DIGEST), "zookeeperAuthDigestFile"),
        (("metadataStoreUrl=zk:127.0.0.1:2181,10.0.0.2:2181", DIGEST), "zookeeperAuthDigestFile"),
        ((LOCAL, *WEBHOOK, "dataPlaneUrl=http://broker:9090"), "dataPlaneUrl"),
        ((LOCAL, *ATTACHED, "pulsarAdminUrl=https://a:8443,http://b:8080"), "pulsarAdminUrl"),
    ],
)
def test_a_secret_that_would_cross_a_network_in_the_clear_ends_the_start(
    overrides: tuple[str, ...], key: str, tmp_path: Path
) -> None:
    refused = check(tmp_path, *overrides)
    assert refused.exit_code == 1
    (error,) = [line for line in refused.output.splitlines() if line.startswith("error")]
    assert f" {key}=" in error
    assert "in the clear" in error
    assert "allowCleartextCredentials=false" in error
    assert "0123456789abcdef" not in error
    allowed = check(tmp_path, *overrides, ALLOWED)
    assert allowed.exit_code == 0, allowed.output


@pytest.mark.parametrize(
    "overrides",
    [
        (LOCAL, *AUTHENTICATED),
        (LOCAL, *AUTHENTICATED, "bindAddress=::1", "lookupServicePort=6651"),
        (LOCAL, OFF_LOOPBACK, *AUTHENTICATED, *TLS_PORT, "webServicePort="),
        # Nor without tokens.
        (LOCAL, OFF_LOOPBACK, *CERTIFIED),
        (LOCAL, DIGEST),
        ("metadataStoreUrl=zk:localhost:2181,[::1]:2182", DIGEST),
        (FOREIGN, DIGEST, "zookeeperTlsEnabled=true"),
        (LOCAL, *WEBHOOK, "dataPlaneUrl=http://127.0.0.1:9090"),
        (LOCAL, *WEBHOOK, "dataPlaneUrl=https://broker:9090"),
        (LOCAL, *ATTACHED, "pulsarAdminUrl=http://localhost:8080,https://b:8443"),
        (LOCAL, "dataPlane=pulsar", "pulsarAdminUrl=http://b:8080"),
        # Without a secret nothing is read on the way.
        (LOCAL, OFF_LOOPBACK, "allowInsecureListener=true"),
    ],
)
def test_without_such_a_way_nothing_has_to_be_allowed(
    overrides: tuple[str, ...], tmp_path: Path
) -> None:
    result = check(tmp_path, *overrides)
    assert result.exit_code == 0, result.output
