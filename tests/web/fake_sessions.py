"""A fake gateway with many chats: lists them in pages and stores what the page changes."""

import time
from typing import Any

from playwright.sync_api import Page

from tests.web.fake_gateway import FakeGateway

NOW = int(time.time() * 1000)
HOUR = 3_600_000
DAY = 24 * HOUR

Row = dict[str, Any]


def row(name: str, title: str = "", *, age: int = 0, **more: Any) -> Row:
    """Return a chat `agent:main:<name>`, changed `age` milliseconds ago."""
    return {
        "key": f"agent:main:{name}",
        "id": f"id-{name}",
        "sessionId": f"g-{name}",
        "displayName": title or name,
        "label": None,
        "updatedAt": NOW - age,
        "createdAt": NOW - age - HOUR,
        "owner": {"actor": {"label": "somebody"}},
        "pinned": False,
        "archived": False,
        "unread": False,
        "status": None,
        "waitingFor": None,
        **more,
    }


class FakeSessions(FakeGateway):
    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.rows: list[Row] = [row("main", "Main talk", sessionId="g1")]
        self.deleted: list[Row] = []
        self.answers |= {
            "sessions.list": self.listed,
            "sessions.patch": self.patch,
            "sessions.delete": self.delete,
            "sessions.restore": self.restore,
            "sessions.search": lambda params: {"results": []},
        }

    def listed(self, params: dict[str, Any]) -> dict[str, Any]:
        if "spawnedBy" in params:
            return {"sessions": [each for each in self.rows if each.get("spawnedBy") == params["spawnedBy"]]}
        wanted = params.get("search", "").lower()
        rows = [
            each
            for each in sorted(self.rows, key=lambda each: (not each["pinned"], -each["updatedAt"]))
            if each["archived"] == params.get("archived", False)
            and (wanted in each["key"] or wanted in each["displayName"].lower())
        ]
        start, end = params.get("offset", 0), params.get("offset", 0) + params["limit"]
        defaults = {"modelProvider": "demo", "model": "clawsite"}
        return {"sessions": rows[start:end], "nextOffset": end if end < len(rows) else None, "defaults": defaults}

    def find(self, key: str) -> Row:
        return next(each for each in self.rows if each["key"] == key)

    def patch(self, params: dict[str, Any]) -> dict[str, Any]:
        changes = {name: value for name, value in params.items() if name != "key"}
        if "title" in changes:
            changes["displayName"] = changes.pop("title")
        self.find(params["key"]).update(changes)
        self.changed(params["key"], "patched")
        return {"ok": True, "key": params["key"], "sessionId": "x", "entry": {}}

    def delete(self, params: dict[str, Any]) -> dict[str, Any]:
        gone = self.find(params["key"])
        self.rows.remove(gone)
        self.deleted.append(gone)
        self.changed(gone["key"], "deleted", gone["sessionId"])
        return {"ok": True, "key": gone["key"], "sessionId": gone["sessionId"], "deleted": True}

    def restore(self, params: dict[str, Any]) -> dict[str, Any]:
        back = next(each for each in self.deleted if each["sessionId"] == params["sessionId"])
        self.rows.append(back)
        self.changed(back["key"], "restored")
        return {"ok": True, "key": back["key"], "restored": True}

    def changed(self, key: str, reason: str, session_id: str = "") -> None:
        payload = {"sessionKey": key, "sessionId": session_id or self.find(key)["sessionId"], "reason": reason, "ts": NOW}
        self.send({"type": "event", "event": "sessions.changed", "payload": payload})

    def phase(self, key: str, phase: str, **data: Any) -> None:
        """Send a lifecycle event of a run in a chat that is not shown."""
        frame = self.record_event(f"run-of-{key}", "lifecycle", phase=phase, **data)
        self.log.pop()
        self.cursor -= 1
        frame["payload"] |= {"sessionKey": key, "sessionId": self.find(key)["sessionId"]}
        self.send(frame)
