"""Says for whom a request is: the audit log names the person who is signed in for every change made while it is answered."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from clawsite.infra.audit import actor
from clawsite.infra.audit.actor import Actor, acting_as


@sync_and_async_middleware
def acting_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """After Django's authentication."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> Any:
            with acting_as(lambda: _actor(request)):
                return await get_response(request)

        return answer_later

    def answer(request: HttpRequest) -> Any:
        with acting_as(lambda: _actor(request)):
            return get_response(request)

    return answer


def _actor(request: HttpRequest) -> Actor:
    """Somebody, even if not signed in: what a page does is not the system's own doing."""
    return actor.actor_for_user(request.user) if request.user.is_authenticated else Actor("person")
