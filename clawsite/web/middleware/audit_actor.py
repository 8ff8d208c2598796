"""Set the audit actor of a request: the audit log attributes every change made during it to the signed-in user."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from clawsite.infra.audit import actor
from clawsite.infra.audit.actor import Actor, acting_as


@sync_and_async_middleware
def acting_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Must come after Django's authentication."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> Any:
            with acting_as(lambda: _actor(request)):
                return await get_response(request)

        return respond_async

    def respond(request: HttpRequest) -> Any:
        with acting_as(lambda: _actor(request)):
            return get_response(request)

    return respond


def _actor(request: HttpRequest) -> Actor:
    """Return a person even if not signed in: changes made through a page are not made by the system."""
    return actor.actor_for_user(request.user) if request.user.is_authenticated else Actor("person")
