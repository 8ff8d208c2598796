"""Filters and pagination of approval lists: requests the user may see, narrowed by URL parameters."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import QueryDict

from clawsite.accounts.models import User
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet

PER_PAGE = 25  # cards include full details, so more of them would render slowly
MAX_LENGTH = 200


@dataclass(frozen=True, slots=True)
class ApprovalFilters:
    agent: str = ""
    person: str = ""
    chat: str = ""
    program: str = ""
    page: int = 1

    @classmethod
    def read(cls, params: QueryDict) -> "ApprovalFilters":
        values = {name: params.get(name, "").strip()[:MAX_LENGTH] for name in ("agent", "person", "chat", "program")}
        page = params.get("page", "1")
        if not (page.isdecimal() and 0 < int(page) < 100_000) or not _is_uuid(values["chat"]):
            raise BadRequest
        return cls(**values, page=int(page))

    @property
    def narrows(self) -> bool:
        return bool(self.agent or self.person or self.chat or self.program)

    def query(self, **changed: Any) -> str:
        """Return the filters as a URL query string."""
        params = {
            "agent": self.agent,
            "person": self.person,
            "chat": self.chat,
            "program": self.program,
            "page": self.page,
            **changed,
        }
        return urlencode({name: value for name, value in params.items() if value not in ("", 1)})

    def apply(self, queryset: ApprovalQuerySet) -> ApprovalQuerySet:
        if self.agent:
            queryset = queryset.filter(agent=self.agent)
        if self.person:
            queryset = queryset.filter(requester__username=self.person)
        if self.chat:
            queryset = queryset.filter(session=UUID(self.chat))
        if self.program:
            queryset = queryset.filter(plan__executables__icontains=self.program)
        return queryset


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """Filter options: only values with pending requests."""

    agents: list[str]
    people: list[str]


def list_pending(user: User) -> ApprovalQuerySet:
    return Approval.objects.for_user(user).filter(status=Approval.Status.PENDING)


def paginate(queryset: ApprovalQuerySet, page: int) -> ApprovalQuerySet:
    """Return one page, oldest first. Sorting by ID too keeps the order stable."""
    return queryset.order_by("created_at", "id")[(page - 1) * PER_PAGE : page * PER_PAGE]


def build_choices(queryset: ApprovalQuerySet) -> FilterChoices:
    agents = queryset.order_by("agent").values_list("agent", flat=True).distinct()
    people = queryset.order_by("requester__username").values_list("requester__username", flat=True).distinct()
    return FilterChoices(list(agents[:MAX_LENGTH]), list(people[:MAX_LENGTH]))


def _is_uuid(text: str) -> bool:
    try:
        return not text or bool(UUID(text))
    except ValueError:
        return False
