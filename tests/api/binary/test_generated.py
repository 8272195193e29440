"""The checked-in Python of the protocol's commands is what protoc makes of their .proto file."""

from pathlib import Path

from tests.support.rules.protoc import FOLDER, generate


def test_generated_files_in_the_repository_are_what_protoc_writes(tmp_path: Path) -> None:
    generate(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    checked_in = {path.name: path.read_text() for path in FOLDER.glob("*_pb2.py*")}
    assert written, "no .proto file was found"
    assert written == checked_in, "run python -m tests.support.rules.protoc"
