"""`claw call`: send one request to the running gateway and print the response as JSON."""

import argparse
import json
import sys
from typing import Any

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.client import Client, ConnectionLost, GatewayError

HELP = "Call one gateway method and print the response as JSON"
EXAMPLES = """examples:
  claw call health
  claw call sessions.list --params '{"limit": 5}'
  claw call agent --params '{"message": "hi", "idempotencyKey": "k1"}' --expect-final
  echo '{"sessionKey": "agent:main:main"}' | claw call chat.history --params -

Methods and their parameters: `claw protocol-docs`. An error is printed to stderr, with exit code 1.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", help="name of the method, such as health or sessions.list")
    parser.add_argument("--params", default="{}", metavar="JSON", help="parameters as a JSON object; - reads them from stdin")
    parser.add_argument("--expect-final", action="store_true", help="wait until the run ends, not only until it is accepted")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="how long to wait (default 30)")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return endpoint.run_with_gateway(_call(options, _parse_params(options.params)))


def _parse_params(text: str) -> dict[str, Any]:
    try:
        params = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise CommandFailed(f"--params is not JSON: {error}.", code=2) from error
    if not isinstance(params, dict):
        raise CommandFailed("--params must be a JSON object, such as '{\"limit\": 5}'.", code=2)
    return params


async def _call(options: argparse.Namespace, params: dict[str, Any]) -> int:
    async with Client(endpoint.resolve_endpoint(options)) as client:
        try:
            response = await client.request(options.method, params, timeout=options.timeout, expect_final=options.expect_final)
        except GatewayError as error:
            print(json.dumps(error.error, ensure_ascii=False), file=sys.stderr)
            return 1
        except ConnectionLost as error:
            raise CommandFailed(
                f"the connection was lost before the response: {error}. The request may have been carried out."
            ) from error
        except TimeoutError:
            raise CommandFailed(
                f"no response within {options.timeout:g} s. The request may still be carried out; use --timeout to wait longer."
            ) from None
    print(json.dumps(response, indent=2, ensure_ascii=False))
    return 0
