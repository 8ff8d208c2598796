"""A fake gateway at the other end of the page's WebSocket: responds from a table and sends the events a test chooses."""

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, WebSocketRoute

from clawsite.infra.markdown.render import render_markdown

KEY = "agent:main:main"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Refused(Exception):
    """Raised by a handler to send an error."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **more}


class FakeGateway:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.socket: WebSocketRoute | None = None
        self.connections = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.unanswered: list[tuple[WebSocketRoute, dict[str, Any]]] = []
        self.cursor = 0
        self.frame_seq = 0
        self.run_seq: dict[str, int] = {}
        self.log: list[dict[str, Any]] = []  # all events so far, as catch-up returns them
        self.scopes = ["operator.read", "operator.write"]
        self.tick_ms = 15_000
        self.answers: dict[str, Answer | None] = {
            "connect": self._hello,
            "chat.history": lambda params: self.history([]),
            "sessions.history": self.missed,
            "sessions.list": lambda params: {"sessions": [{"key": KEY, "displayName": None}]},
            "sessions.read": lambda params: {"ok": True, "key": params["key"], "sessionId": "g1"},
            "sessions.members": lambda params: {"members": [{"username": "somebody", "name": "somebody", "role": "owner"}]},
            "agents.list": lambda params: {"defaultId": "main", "agents": [{"id": "main", "name": "Main", "model": None}]},
            "models.list": lambda params: {"models": []},
            "commands.list": lambda params: {"commands": []},
            "panic.status": lambda params: {"stopped": [], "stillWorking": 0, "mayResume": False},
            "chat.send": lambda params: {"runId": params["idempotencyKey"], "status": "started"},
            "chat.abort": lambda params: {"ok": True, "aborted": True, "runIds": []},
            "chat.render": lambda params: {"html": [render_markdown(block) for block in params["blocks"]]},
        }
        page.route_web_socket("**/ws", self._opened)

    def _opened(self, socket: WebSocketRoute) -> None:
        self.socket = socket
        self.connections += 1
        self.frame_seq = 0
        socket.on_message(lambda text: self._on_request(socket, json.loads(text)))
        socket.send(json.dumps({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}}))

    def _on_request(self, socket: WebSocketRoute, frame: dict[str, Any]) -> None:
        self.requests.append((frame["method"], frame["params"]))
        if self.answers[frame["method"]] is None:
            self.unanswered.append((socket, frame))  # no response
        else:
            self._answer(socket, frame)

    def _answer(self, socket: WebSocketRoute, frame: dict[str, Any]) -> None:
        answer = self.answers[frame["method"]]
        assert answer
        try:
            reply = {"ok": True, "payload": answer(frame["params"])}
        except Refused as refusal:
            reply = {"ok": False, "error": refusal.error}
        socket.send(json.dumps({"type": "res", "id": frame["id"], **reply}))
        if frame["method"] == "connect" and not reply["ok"]:
            socket.close(code=1008, reason="refused")  # like the real gateway

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "hello-ok",
            "protocol": 4,
            "policy": {"tickIntervalMs": self.tick_ms},
            "auth": {"role": "operator", "scopes": self.scopes},
        }

    def missed(self, params: dict[str, Any]) -> dict[str, Any]:
        missed = [frame for frame in self.log if frame["payload"]["cursor"] > params["fromStateVersion"]]
        return {"sessionKey": KEY, "events": missed, "cursor": self.cursor, "more": False}

    def history(self, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "sessionKey": KEY,
            "messages": messages,
            "cursor": self.cursor,
            "queued": [],
            "activeRun": None,
            "sessionId": "g1",
            **more,
        }

    def respond_late(self, method: str, answer: Answer) -> None:
        """Respond to pending and future requests of a method."""
        self.answers[method] = answer
        late = [(socket, frame) for socket, frame in self.unanswered if frame["method"] == method]
        for socket, frame in late:
            self.unanswered.remove((socket, frame))
            self._answer(socket, frame)

    def wait_for_calls(self, method: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait for this many calls of a method. Returns their parameters."""
        for _ in range(500):
            if len(self.calls(method)) >= times:
                return self.calls(method)
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{method} was called {len(self.calls(method))} times, not {times}")

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.requests if name == method]

    def record_event(self, run_id: str, stream: str, **data: Any) -> dict[str, Any]:
        """Record an event without sending it."""
        self.cursor += 1
        self.run_seq[run_id] = self.run_seq.get(run_id, 0) + 1
        payload = {
            "runId": run_id,
            "seq": self.run_seq[run_id],
            "stream": stream,
            "ts": 1,
            "sessionKey": KEY,
            "sessionId": "g1",
            "cursor": self.cursor,
            "data": data,
        }
        frame = {"type": "event", "event": "agent", "payload": payload}
        self.log.append(frame)
        return frame

    def send(self, frame: dict[str, Any]) -> None:
        assert self.socket
        self.frame_seq += 1
        self.socket.send(json.dumps({**frame, "seq": self.frame_seq}))

    def send_event(self, run_id: str, stream: str, **data: Any) -> None:
        self.send(self.record_event(run_id, stream, **data))

    def stream_text(self, run_id: str, text: str, offset: int, message: str = "m1", attempt: int = 1) -> None:
        self.send_event(run_id, "assistant", messageId=message, attempt=attempt, delta=text, offset=offset)

    def disconnect(self, code: int = 1012) -> None:
        assert self.socket
        self.socket.close(code=code, reason="test")
