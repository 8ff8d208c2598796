"""How commands find the gateway: --url, then the environment, then the address file in the state directory."""

import argparse
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawsite.cli import address, endpoint
from clawsite.cli.command import CommandFailed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAWSITE_HOST", "CLAWSITE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLAWSITE_HOME", str(tmp_path))
    monkeypatch.setenv("CLAWSITE_GATEWAY_TOKEN", "t")
    return tmp_path


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


def at(one: socket.socket) -> str:
    return f"ws://127.0.0.1:{one.getsockname()[1]}/ws"


def test_published_address_is_used_while_it_exists(home: Path, listener: socket.socket) -> None:
    assert endpoint.find_default_url() == "ws://127.0.0.1:8765/ws"
    with address.publish_address(home, listener):
        assert endpoint.find_default_url() == at(listener)
    assert endpoint.find_default_url() == "ws://127.0.0.1:8765/ws"
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "url"), [("CLAWSITE_HOST", "::", "ws://[::1]:8765/ws"), ("CLAWSITE_PORT", "9", "ws://127.0.0.1:9/ws")]
)
def test_environment_overrides_the_address_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, url: str
) -> None:
    (home / address.ADDRESS_FILE).write_text("ws://127.0.0.1:1234/ws\n")
    monkeypatch.setenv(name, value)
    assert endpoint.find_default_url() == url


def test_url_option_overrides_everything(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWSITE_PORT", "9")
    assert endpoint.resolve_endpoint(argparse.Namespace(url="ws://far/ws")).url == "ws://far/ws"


def test_wildcard_address_is_published_as_loopback(home: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere, address.publish_address(home, everywhere):
        assert address.read_address(home) == at(everywhere)


def test_stale_address_file_is_replaced_and_live_one_kept(home: Path, listener: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, address.publish_address(home, first):
        with address.publish_address(home, listener, give_way=True):
            assert address.read_address(home) == at(first)
        assert address.read_address(home) == at(first)
    (home / address.ADDRESS_FILE).write_text("ws://127.0.0.1:1/ws")
    with address.publish_address(home, listener, give_way=True):
        assert address.read_address(home) == at(listener)


def test_address_file_of_another_process_is_not_removed(home: Path, listener: socket.socket) -> None:
    with address.publish_address(home, listener):
        (home / address.ADDRESS_FILE).write_text("ws://127.0.0.1:1234/ws")
    assert address.read_address(home) == "ws://127.0.0.1:1234/ws"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:1", "ws://127.0.0.1:1/ws"),
        ("https://claw.example.com/", "wss://claw.example.com/ws"),
        ("https://example.com/claw/ws", "wss://example.com/claw/ws"),
        ("ws://127.0.0.1:1", "ws://127.0.0.1:1"),
        ("wss://[::1]:9/ws", "wss://[::1]:9/ws"),
    ],
)
def test_page_urls_are_converted_to_websocket_urls(given: str, url: str) -> None:
    assert endpoint.to_socket_url(given) == url


@pytest.mark.parametrize("given", ["", "localhost:8765", "ftp://x", "http://", "http://h:eighty", "ws://[::1/ws", "ws://h#part"])
def test_invalid_address_is_a_usage_error(given: str) -> None:
    with pytest.raises(CommandFailed, match="is not the address of a gateway") as failed:
        endpoint.to_socket_url(given)
    assert failed.value.code == 2
