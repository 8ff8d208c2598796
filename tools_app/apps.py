from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from sessions_app.runs.waiting import Wait


class ToolsAppConfig(AppConfig):
    name = "tools_app"
    verbose_name = _("Tools")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from sessions_app.runs import waiting
        from sessions_app.runs.lifecycle import run_ended

        post_migrate.connect(_install_policies, sender=self, dispatch_uid="install policies")
        run_ended.connect(_void_approvals, dispatch_uid="void approvals")
        waiting.register_kind(
            waiting.Kind.APPROVAL, waiting.WaitKind(_find_closed_approvals, list_open=_list_open_approvals, accepts=_is_uuid)
        )


def _install_policies(**signal: Any) -> None:
    """Import lazily: the module pulls in pydantic (0.3 s), which most management commands don't need."""
    from tools_app.policy_store.policies import install_policies

    install_policies(**signal)


def _void_approvals(run_pk: int, reason: str, **_signal: Any) -> None:
    from tools_app.approvals.requests import void_for_run

    void_for_run(run_pk, reason)


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def _list_open_approvals(run_pk: int) -> "Sequence[Wait]":
    from tools_app.approvals.requests import list_waits

    return list_waits(run_pk)


def _find_closed_approvals(approval_ids: Collection[str]) -> Collection[str]:
    from tools_app.approvals.requests import find_closed

    return find_closed(approval_ids)
