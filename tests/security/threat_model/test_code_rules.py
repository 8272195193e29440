"""What the code never does, whatever its input is."""

import ast
import hmac
from functools import cache
from pathlib import Path

import pytest

import broker_ctl
from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.sources import load

PACKAGE = Path(broker_ctl.__file__).parent
MODULES = {"cPickle", "dill", "marshal", "pickle", "shelve", "yaml"}
EVALUATING = {"compile", "eval", "exec", "__import__"}
WRITING = {
    # What a verb prints; nothing is read.
    ("cli/runtime/output.py", "yaml"),
}
UNVERIFIED = {"CERT_NONE", "CERT_OPTIONAL", "_create_unverified_context"}
VERIFIED_OTHERWISE = {
    # Of clients, which may authenticate by a token instead.
    ("daemon/wiring/tls.py", "CERT_OPTIONAL"),
    # Asked, not set.
    ("security/certificates/peer_certificate.py", "CERT_NONE"),
    # The certificate has to name the number of the broker: see test_replication_port.py.
    ("daemon/wiring/tls.py", "check_hostname"),
    # A handshake in memory between two files of this machine, which tries one side at a time.
    ("daemon/secrets.py", "CERT_NONE"),
    ("daemon/secrets.py", "check_hostname"),
}


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """All of the package, parsed once for all rules."""
    return [
        (file.relative_to(PACKAGE), node)
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    ]


def test_no_code_reads_pickles_or_yaml_or_evaluates_a_text() -> None:
    found: set[tuple[str, str]] = set()
    for file, node in nodes():
        match node:
            case ast.Import(names):
                used = {name.name.partition(".")[0] for name in names} & MODULES
            case ast.ImportFrom(module=str(module)):
                used = {module.partition(".")[0]} & MODULES
            case ast.Call(func=ast.Name(id=name)):
                used = {name} & EVALUATING
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                used = {"shell=True"}
            case _:
                continue
        found |= {(file.as_posix(), what) for what in used}
    assert found == WRITING


def test_yaml_is_written_and_never_read() -> None:
    used = {
        node.attr
        for file, node in nodes()
        if file.as_posix() == "cli/runtime/output.py"
        and isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
    }
    assert used == {"dump", "CSafeDumper"}


def test_no_code_switches_the_verification_of_certificates_off() -> None:
    found: set[tuple[str, str]] = set()
    for file, node in nodes():
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in UNVERIFIED:
                found.add((file.as_posix(), name))
            case ast.Attribute(attr="check_hostname", ctx=ast.Store()):
                found.add((file.as_posix(), "check_hostname"))
            case ast.keyword(arg="ssl" | "verify_ssl", value=ast.Constant(value=False)):
                found.add((file.as_posix(), ast.unparse(node)))
            case _:
                continue
    assert found == VERIFIED_OTHERWISE


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1.1", "SSLv3"])
def test_no_setting_allows_a_version_of_tls_before_1_2(version: str) -> None:
    with pytest.raises(SettingsError, match=r"tlsProtocols.*TLSv1\.2"):
        load(None, {}, [f"tlsProtocols={version}"])


def test_known_and_unknown_tokens_are_compared_equally_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = StaticTokens.parse(
        "a:first-secret-of-all\nb:second-secret-of-all\nc:a-third-secret-of-it\n"
    )
    compared: list[int] = []
    original = hmac.compare_digest

    def count(one: bytes, other: bytes) -> bool:
        compared.append(len(one) - len(other))
        return original(one, other)

    monkeypatch.setattr(hmac, "compare_digest", count)
    for token in (b"first-secret-of-all", b"third-secret-of-all", b"x", b"first-secret-of-alm"):
        compared.clear()
        tokens.authenticate(Evidence(token))
        # Of all, and of equal length: neither place nor likeness shows in the time.
        assert compared == [0, 0, 0]
