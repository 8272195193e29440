"""``broker-ctl cluster-key``: the keys with which brokers sign what they say to each other."""

from typing import Final

import click

from broker_ctl.cli.cluster_key.edits import add, promote, remove
from broker_ctl.cli.cluster_key.files import create, show
from broker_ctl.cli.runtime.verb_help import VerbGroup

_EXAMPLES: Final = """\b
Examples:
  broker-ctl cluster-key create /etc/broker-ctl/cluster.key
  broker-ctl cluster-key add /etc/broker-ctl/cluster.key
  broker-ctl cluster-key show /etc/broker-ctl/cluster.key
"""


@click.group(cls=VerbGroup, short_help="Keys that all brokers share.", epilog=_EXAMPLES)
def command() -> None:
    """Create and replace the keys that all brokers share, and sign with.

    The first key of a file signs, all of them verify. To replace a key while the cluster serves:
    add a new one, promote it, remove the old one. After each step, copy the file to every
    broker, and wait until each has loaded it, which takes no restart.
    """


for _verb in (create, add, promote, remove, show):
    command.add_command(_verb)
