"""Daemons of one cluster that are not all set alike."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons


class OwnSettings(Daemons):
    """As `Daemons`, each with settings of its own beside those of all."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], own: Sequence[Mapping[str, str]]
    ) -> None:
        super().__init__(directory, 0, settings)
        self.all = [
            DaemonProcess(directory, number, {**settings, **only})
            for number, only in enumerate(own, start=1)
        ]
