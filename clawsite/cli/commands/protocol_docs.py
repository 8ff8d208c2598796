"""`claw protocol-docs`: print the protocol reference, generated from the method declarations, as Markdown."""

import argparse

from clawsite.cli.command import load_django

HELP = "Print docs/protocol.md: every method, event and error of the WebSocket protocol"
EXAMPLES = """examples:
  claw protocol-docs | less
  claw protocol-docs > docs/protocol.md     after changing a method
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no arguments."""


def run(options: argparse.Namespace) -> int:
    load_django()
    from clawsite.gateway.server import docs

    print(docs.render_protocol_docs(), end="")
    return 0
