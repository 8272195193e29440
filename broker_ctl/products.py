"""Products beside the daemon, each in a room of its own, loaded by name where a setting chooses it.

The daemon imports none of them. Most daemons need none, start sooner without, and can be read
without knowing them.
"""

from enum import StrEnum
from importlib import import_module
from typing import Any


class Product(StrEnum):
    """A product, as the module that the daemon asks for its parts."""

    SIMULATED_BROKER = "broker_ctl.lab.planes"
    ATTACHED_DAEMON = "broker_ctl.attach.lifecycle"
    ATTACHED_STATE = "broker_ctl.attach.state"
    CONSOLE = "broker_ctl.console.web.routes"


def load(product: Product) -> Any:
    """The module of a product."""
    return import_module(product)
