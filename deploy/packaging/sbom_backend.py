"""Build backend: setuptools, and a software bill of materials in the wheel.

The bill is CycloneDX 1.6 in ``*.dist-info/sboms`` (PEP 770): each package of the lock of a daemon,
with the hashes of its files. Editable installs have none, and need no further package to be built.
"""

import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  # hooks of PEP 517 and 660 that stay as they are
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
)
from setuptools.command import sdist

_NAME = "broker-ctl.cdx.json"
_LOCK = Path("deploy/locks/run.txt")
_PIN = re.compile(r"^([\w.-]+)==(\S+)(.*)$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class _Sdist(sdist.sdist):
    """A source distribution with what its own build reads."""

    def add_defaults(self) -> None:
        super().add_defaults()
        self.filelist.extend([str(_LOCK), "deploy/packaging/sbom_backend.py"])


# The command is looked up by this name; only a MANIFEST.in at the top level would do the same.
sdist.sdist = _Sdist


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What a wheel needs beside the packages of ``build-system.requires``."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), "cyclonedx-python-lib>=11"]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Metadata of the wheel, with the bill of materials."""
    name: str = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    sboms = Path(metadata_directory, name, "sboms")
    sboms.mkdir()
    sboms.joinpath(_NAME).write_text(_bill(_LOCK.read_text(encoding="ascii")), encoding="utf-8")
    return name


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """The wheel, with the metadata that were prepared."""
    if metadata_directory is not None:
        return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
    with tempfile.TemporaryDirectory() as prepared:
        name = prepare_metadata_for_build_wheel(prepared, config_settings)
        return str(
            build_meta.build_wheel(wheel_directory, config_settings, str(Path(prepared, name)))
        )


def _bill(lock: str) -> str:
    """The bill of a lock file; the same lock gives the same bytes."""
    # Installed only where a wheel is built.
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    def component(name: str, version: str, kind: ComponentType, hashes: list[str]) -> Component:
        purl = PackageURL("pypi", None, name, version)
        return Component(
            name=name,
            version=version,
            type=kind,
            purl=purl,
            bom_ref=str(purl),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one) for one in hashes],
        )

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = component(project["name"], project["version"], ComponentType.APPLICATION, [])
    parts = [
        component(name, version, ComponentType.LIBRARY, _HASH.findall(hashes))
        for name, version, hashes in _PIN.findall(lock.replace("\\\n", " "))
    ]
    bom = Bom(components=parts)
    bom.metadata.component = own
    bom.register_dependency(own, parts)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    # Drawn and read from a clock: without them a build can be repeated byte by byte.
    del document["serialNumber"], document["metadata"]["timestamp"]
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
