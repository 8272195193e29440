"""Each alternative that a declaration names makes a daemon of its own, or is said to be alike.

Two choices of a list make parts that differ. Texts of two forms, such as URLs of two schemes,
differ in the text that some part holds in any case, which does not count. A part of another
class, a number, or a field that is filled in place of another is.
"""

import base64
import re
import socket
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker_ctl.core.model.broker import AllowedHosts
from broker_ctl.security.audit.log import AuditSyslog
from broker_ctl.settings.root import DECLARATIONS, Settings
from tests.support.daemon.alternatives import alternatives
from tests.support.daemon.built import Built, build, changed
from tests.support.daemon.wired_settings import (
    ASKED,
    ATTACHED,
    BY_ISSUER,
    CALLED,
    CERTIFYING,
    CLUSTER_KEY,
    IN_KUBERNETES,
    JWT_SECRET,
    WIRED,
)

Load = Callable[..., Settings]

ROOT: Final = Path(__file__).parents[2]
AT_RUN_TIME: Final = ROOT / "tests" / "daemon" / "lifecycle" / "test_settings_at_run_time.py"

# Handed on as they are: who distinguishes them, or why nobody needs to.
ALIKE: Final[Mapping[str, str]] = {
    "auditSyslogAddress": "AuditSyslog, below",
    "openTelemetryTracesEndpoint": "OpenTelemetry's exporter knows both schemes",
}
# Four ways to write one key: they must not differ, below.
SAME_KEY: Final = ("tokenSecretKey", "tokenPublicKey")
# Beside which an alternative differs from all others, where not beside what the row of
# wired_settings.py has.
BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "authenticationProviders": (*CERTIFYING, *ASKED, *BY_ISSUER[3:], "superUserRoles=user"),
    "dataPlane": (*CALLED, *ATTACHED[1:]),
    "pulsarStateUrl": tuple(one for one in IN_KUBERNETES if not one.startswith("pulsarStateUrl")),
}
# On loopback "auto" is "true", and without authentication elsewhere "false".
ELSEWHERE: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "consoleEnabled": ((), ("bindAddress=0.0.0.0", "allowInsecureListener=true")),
}
DECLARED: Final = {
    key: texts for key, one in DECLARATIONS.items() if (texts := tuple(alternatives(one)))
}
ROWS: Final = {row.key: row for row in WIRED}
RSA: Final = base64.b64encode(
    generate_private_key(65_537, 2_048)
    .public_key()
    .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
).decode()


def written(key: str, text: str) -> tuple[str, ...]:
    """The settings that give a key one of its alternatives."""
    beside = BESIDE.get(key, ROWS[key].beside)
    if key == "tokenPublicAlg" and text.startswith("RS"):
        beside = (*beside, f"tokenPublicKey={RSA}")
    if key == "supportedNamespaceBundleSplitAlgorithms":
        # The default has to be among them.
        beside = (*beside, f"defaultNamespaceBundleSplitAlgorithm={text}")
    return (*beside, f"{key}={text}")


def without_texts(built: Built) -> Built:
    """What is built, with every text made the same."""
    return {
        path: (label, "text" if re.match(r"b?['\"]", value) else value)
        for path, (label, value) in built.items()
    }


def built_of_each(key: str, load: Load, *further: str) -> dict[str, Built]:
    built = {text: build(load(*written(key, text), *further)) for text in DECLARED[key]}
    are_forms = any(":" in text for text in built)
    return {text: without_texts(one) if are_forms else one for text, one in built.items()}


def alike(built: Mapping[str, Built]) -> set[tuple[str, str]]:
    return {
        (one, other)
        for one, other in combinations(built, 2)
        if not changed(built[one], built[other])
    }


def test_the_declarations_that_name_alternatives_are_found() -> None:
    assert DECLARED["advertisedListeners"] == (
        *("a:pulsar://h:1", "a:pulsar+ssl://h:1", "a:http://h:1", "a:https://h:1"),
    )
    assert DECLARED["pulsarStateUrl"] == ("memory:", "file:/directory", "kubernetes:a/b")
    assert DECLARED["stopMode"] == ("handover", "keep")
    assert DECLARED["auditSyslogAddress"] == ("h:1", "/dev/log")
    assert {*ALIKE, *SAME_KEY, *BESIDE, *ELSEWHERE} <= DECLARED.keys()


@pytest.mark.parametrize(
    "key", sorted((DECLARED.keys() & ROWS.keys()) - ALIKE.keys() - {*SAME_KEY})
)
def test_each_alternative_makes_a_daemon_of_its_own(key: str, load_here: Load) -> None:
    found = [alike(built_of_each(key, load_here, *more)) for more in ELSEWHERE.get(key, ((),))]
    assert set.intersection(*found) == set()


@pytest.mark.parametrize("key", sorted(ALIKE))
def test_what_is_said_to_be_alike_is_handed_on_as_it_is(key: str, load_here: Load) -> None:
    built = built_of_each(key, load_here)
    assert alike(built) == set(combinations(built, 2)), ALIKE[key]


@pytest.mark.parametrize("key", sorted(DECLARED.keys() - ROWS.keys()))
def test_an_alternative_that_is_read_at_run_time_stands_in_its_test(key: str) -> None:
    text = AT_RUN_TIME.read_text()
    assert key in text
    assert [one for one in DECLARED[key] if not re.search(rf"\b{one}\b", text)] == []


@pytest.mark.parametrize("key", SAME_KEY)
def test_every_way_to_write_a_key_gives_the_same_key(
    key: str, load_here: Load, tmp_path: Path
) -> None:
    is_secret = key == "tokenSecretKey"
    text = JWT_SECRET if is_secret else RSA
    file = tmp_path / "key"
    file.write_bytes(base64.b64decode(text))
    file.chmod(0o600)
    beside = ("authenticationEnabled=true", "superUserRoles=user", f"clusterKeyFile={CLUSTER_KEY}")
    ways = (f"file://{file}", f"{file}", f"data:;base64,{text}", text)
    assert len(ways) == len(DECLARED[key])
    first, *others = (build(load_here(*beside, f"{key}={way}")) for way in ways)
    for other in others:
        # The files are watched; the keys are equal.
        assert {place for place in changed(first, other) if "Key" in place} <= {"JwtKey.origin"}


@pytest.mark.parametrize("is_path", [False, True])
def test_the_audit_log_goes_to_a_server_and_to_a_socket(
    is_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path of a socket has about a hundred characters at most.
    monkeypatch.chdir(tmp_path)
    family = socket.AF_UNIX if is_path else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.bind("log" if is_path else ("127.0.0.1", 0))
        address = f"/proc/self/cwd/{server.getsockname()}"
        sender = AuditSyslog(address if is_path else "{}:{}".format(*server.getsockname()))
        sender.send([b"a line"], 0)
        sender.close()
        assert b"a line" in server.recv(4096)


@pytest.mark.parametrize(
    ("listed", "host", "is_allowed"),
    [
        ("b-1", "b-1", True),
        ("b-1", "x.b-1", False),
        ("127.0.0.2", "127.0.0.2", True),
        ("127.0.0.2", "127.0.0.3", False),
        (".example.com", "b-1.example.com", True),
        (".example.com", "b-1.example.org", False),
        (".example.com", "notexample.com", False),
    ],
)
def test_a_listed_host_is_judged_by_its_form(listed: str, host: str, is_allowed: bool) -> None:
    assert listed in DECLARED["peerAllowedHosts"]
    assert AllowedHosts.parse([listed]).allows(host) is is_allowed
