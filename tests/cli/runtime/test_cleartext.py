"""No command sends a secret to another machine unencrypted, unless an option allows it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import main
from broker_ctl.cli.runtime.secret_files import crosses_in_the_clear

SECRET = "a-secret-of-many-characters"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(SECRET, encoding="ascii")
    return file


@contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Takes what is sent, and answers that it is not found."""
    got: list[bytes] = []

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                got.append(connection.recv(4096))
                connection.sendall(
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1], got
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


@pytest.fixture
def own_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name of this machine that does not say so."""
    plain = socket.getaddrinfo

    def found(host: str, *rest: object, **named: object) -> object:
        return plain("127.0.0.1" if host == "broker.example" else host, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return "broker.example"


VERBS = {
    "import": (
        *("pipeline", "import", "prometheus", "{url}", "{directory}/history"),
        *("--cluster", "east", "--token-file", "{file}"),
    ),
    "dataplane": ("dataplane", "check", "{url}", "--secret-file", "{file}"),
    "status": ("status", "--url", "{url}", "--token-file", "{file}"),
    "rollout": (
        *("rollout", "run", "--kubernetes", "--kubernetes-api", "{url}", "--yes"),
        *("--statefulset", "pulsar-broker", "--kubernetes-credentials", "{directory}"),
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_secret_crosses_no_network_in_the_clear(
    verb: str, secret: Path, tmp_path: Path, own_name: str
) -> None:
    with listener() as (port, got):
        given = {"url": f"http://{own_name}:{port}", "file": secret, "directory": tmp_path}
        result = CliRunner().invoke(main, [word.format_map(given) for word in VERBS[verb]])
        assert got == []
    assert result.exit_code == 1
    assert "in the clear: nothing was sent" in f"{result.output}{result.exception}"


def test_an_import_sends_its_token_where_it_may(
    secret: Path, tmp_path: Path, own_name: str
) -> None:
    given = {"file": secret, "directory": tmp_path}
    with listener() as (port, got):
        for url, more in (
            (f"http://{own_name}:{port}", ["--allow-cleartext"]),
            (f"http://127.0.0.1:{port}", []),
        ):
            words = [word.format_map({**given, "url": url}) for word in VERBS["import"]]
            CliRunner().invoke(main, [*words, *more])
            assert f"Authorization: Bearer {SECRET}".encode() in got.pop(0)


def test_an_import_refuses_a_token_that_others_could_have_written(
    secret: Path, tmp_path: Path
) -> None:
    secret.chmod(0o666)
    with listener() as (port, got):
        given = {"url": f"http://127.0.0.1:{port}", "file": secret, "directory": tmp_path}
        result = CliRunner().invoke(main, [word.format_map(given) for word in VERBS["import"]])
        assert got == []
    assert result.exit_code == 2
    assert "chmod go-w" in result.output


@pytest.mark.parametrize(
    ("url", "crosses"),
    [
        ("http://127.0.0.1:1", False),
        ("http://[::1]:1", False),
        ("http://localhost", False),
        ("https://broker.example", False),
        ("http://broker.example", True),
        ("http://10.0.0.1:1", True),
        ("http://localhost.example", True),
        ("http:///path", True),
    ],
)
def test_only_loopback_and_tls_keep_a_secret(url: str, crosses: bool) -> None:
    assert crosses_in_the_clear(url) is crosses


def test_every_command_that_reads_a_token_has_the_option() -> None:
    """But for those that send none: they read a token or its file to show or to hash it."""
    found = {
        f"{name}"
        for name, command in _commands("", main)
        if {"--token-file", "--secret-file"} & {opt for one in command.params for opt in one.opts}
        and not any("--allow-cleartext" in one.opts for one in command.params)
    }
    assert found <= {"tokens hash", "tokens show", "tokens validate", "attach"}, found


def _commands(prefix: str, group: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield prefix, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _commands(f"{prefix} {name}".strip(), command)
