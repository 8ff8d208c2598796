from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from sessions_app.sessions.run_waits import RunWaiters


class GatewayConfig(AppConfig):
    name = "clawsite.gateway"
    label = "gateway"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from sessions_app.sessions import run_waits

        run_waits.set_source(_find_waiters)


async def _find_waiters() -> "RunWaiters":
    from clawsite.gateway.server import runtime  # only web processes load it

    return (await runtime.get_runtime()).hub.run_waits
