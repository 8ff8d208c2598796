"""A client of the REST API in this process, through all middleware."""

import json
from typing import Any

from django.conf import settings
from django.test import AsyncClient

from tests.harness.users import create_token, session_cookie


class RestClient:
    """`await client.get("/sessions")`; the response has `.status_code`, `.data` and `.headers`."""

    def __init__(self, token: str = "", cookies: dict[str, str] | None = None) -> None:
        self._client = AsyncClient(enforce_csrf_checks=True)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        for name, value in (cookies or {}).items():
            self._client.cookies[name] = value

    async def ask(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = raw if raw is not None else json.dumps(body).encode() if body is not None else b""
        answer = await self._client.generic(
            method, f"/api{path}", content, content_type="application/json", headers=self._headers | named
        )
        answer.data = json.loads(answer.content) if answer.content else None
        return answer

    async def get(self, path: str, **headers: str) -> Any:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return await self.ask("POST", path, {} if body is None else body, **headers)

    async def patch(self, path: str, body: Any, **headers: str) -> Any:
        return await self.ask("PATCH", path, body, **headers)

    async def delete(self, path: str, **headers: str) -> Any:
        return await self.ask("DELETE", path, **headers)


def token_client(user: Any, *scopes: str) -> RestClient:
    """Return a client with an access token that has these scopes, by default all of the account's."""
    return RestClient(create_token(user, *scopes))


CSRF = "a" * 32


def browser_client(user: Any) -> RestClient:
    """Return a client with a signed-in browser session and the CSRF cookie CSRF."""
    return RestClient(cookies={settings.SESSION_COOKIE_NAME: session_cookie(user), settings.CSRF_COOKIE_NAME: CSRF})
