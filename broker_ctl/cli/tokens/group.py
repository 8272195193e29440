"""``broker-ctl tokens``: keys, JSON Web Tokens as Pulsar has them, and hashes of static tokens."""

from typing import Final

import click

from broker_ctl.cli.runtime.verb_help import VerbGroup
from broker_ctl.cli.tokens.create import command as create
from broker_ctl.cli.tokens.hash import command as hash_
from broker_ctl.cli.tokens.keys import create_key_pair, create_secret_key
from broker_ctl.cli.tokens.show import show
from broker_ctl.cli.tokens.validate import command as validate

_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens create-secret-key --output secret.key
  broker-ctl tokens create --secret-key file:///etc/broker-ctl/secret.key --subject admin
  broker-ctl tokens validate --secret-key file:///etc/broker-ctl/secret.key -f admin.token
  broker-ctl tokens hash admin --output-token admin.token
"""


@click.group(cls=VerbGroup, short_help="Create and check tokens.", epilog=_EXAMPLES)
def command() -> None:
    """Create keys and tokens, and show or validate tokens, without a daemon.

    Keys and JSON Web Tokens have the options and formats of `bin/pulsar tokens`: Pulsar and
    broker-ctl read each other's. `hash` is for static tokens.
    """


for _verb in (create_secret_key, create_key_pair, create, show, validate, hash_):
    command.add_command(_verb)
