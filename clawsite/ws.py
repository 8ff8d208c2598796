"""The WebSocket endpoint: passes frames between Channels and one `WebSocketHandler`. Uses no channel layers."""

import asyncio
from ipaddress import ip_address
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from django.conf import settings
from django.http import parse_cookie

from clawsite.accounts.sign_in import throttle
from clawsite.gateway.auth.accounts import HandshakeInfo
from clawsite.gateway.server import runtime
from clawsite.gateway.server.websocket import WebSocketHandler

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PROXY_HEADERS = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via"})

AsgiScope = dict[str, Any]
AsgiMessage = dict[str, Any]


class GatewayConsumer(AsyncConsumer):  # type: ignore[misc]  # Channels has no types
    # The hub delivers events; a channel layer would cost a task per socket and a copy per event.
    channel_layer_alias = None
    _handler: WebSocketHandler | None = None
    _disconnected = False

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        self._task = asyncio.current_task()
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            if not self._disconnected:
                raise
        finally:
            if self._handler:
                self._handler.handle_disconnect()

    async def dispatch(self, message: AsgiMessage) -> None:
        """Like Channels, but without closing database connections after every frame: only `infra.db` has any, in its threads."""
        if message["type"] == "websocket.disconnect":
            raise StopConsumer
        if self._handler is None:
            self._handler = await self._accept()
            self._handler.send_challenge()
        elif (text := message.get("text")) is not None:
            await self._handler.text(text)
        else:
            self._handler.receive_binary()

    async def _accept(self) -> WebSocketHandler:
        running = await runtime.get_runtime()
        await self.base_send({"type": "websocket.accept"})
        return WebSocketHandler(
            running, read_handshake_info(self.scope), send=self._send_text, send_close=self._close, hang_up=self._disconnect
        )

    async def _send_text(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})

    async def _close(self, code: int, reason: str) -> None:
        await self.base_send({"type": "websocket.close", "code": code, "reason": reason})

    def _disconnect(self) -> None:
        self._disconnected = True
        if self._task:
            self._task.cancel()


def read_handshake_info(scope: AsgiScope) -> HandshakeInfo:
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers[name.lower()] = value
    origin = headers.get(b"origin")
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    peer = (scope.get("client") or ("", 0))[0]
    return HandshakeInfo(
        origin=None if origin is None else origin.decode("latin-1"),
        cookie=cookies.get(settings.SESSION_COOKIE_NAME, ""),
        address=throttle.client_address(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1")),
        local=is_local(peer, headers),
    )


def is_local(peer: str, headers: dict[bytes, bytes]) -> bool:
    """Whether the client is on this host: loopback address, local host name, and no proxy header (a local proxy serves anyone)."""
    try:
        loopback = ip_address(peer.split("%", 1)[0]).is_loopback
    except ValueError:  # a Unix socket, which a proxy may use
        return False
    name = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0].strip("[]")
    return loopback and name in LOCAL_NAMES and PROXY_HEADERS.isdisjoint(headers)
