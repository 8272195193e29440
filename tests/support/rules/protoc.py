"""Writes the Python of the .proto files again: `python -m tests.support.rules.protoc`."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import broker_ctl.api.binary

FOLDER: Final = Path(broker_ctl.api.binary.__path__[0])


def generate(into: Path) -> None:
    """Write a module and its stub for each .proto file."""
    options = (f"--proto_path={FOLDER}", f"--python_out={into}", f"--pyi_out={into}")
    protos = (path.name for path in FOLDER.glob("*.proto"))
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *protos], check=True)


if __name__ == "__main__":
    generate(FOLDER)
