"""Which questions a list shows: those that somebody may see, narrowed by the address, a page at a time."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import QueryDict

from clawsite.accounts.models import User
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet

PER_PAGE = 25  # cards, each with all there is to decide by: more of them take longer to draw than anybody reads
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
        given = {name: params.get(name, "").strip()[:MAX_LENGTH] for name in ("agent", "person", "chat", "program")}
        page = params.get("page", "1")
        if not (page.isdecimal() and 0 < int(page) < 100_000) or not _is_uuid(given["chat"]):
            raise BadRequest
        return cls(**given, page=int(page))

    @property
    def narrows(self) -> bool:
        return bool(self.agent or self.person or self.chat or self.program)

    def query(self, **changed: Any) -> str:
        """As a part of an address."""
        wanted = {
            "agent": self.agent,
            "person": self.person,
            "chat": self.chat,
            "program": self.program,
            "page": self.page,
            **changed,
        }
        return urlencode({name: value for name, value in wanted.items() if value not in ("", 1)})

    def apply(self, found: ApprovalQuerySet) -> ApprovalQuerySet:
        if self.agent:
            found = found.filter(agent=self.agent)
        if self.person:
            found = found.filter(requester__username=self.person)
        if self.chat:
            found = found.filter(session=UUID(self.chat))
        if self.program:
            found = found.filter(plan__executables__icontains=self.program)
        return found


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """What can be chosen in the filters: only what waits."""

    agents: list[str]
    people: list[str]


def list_pending(user: User) -> ApprovalQuerySet:
    return Approval.objects.for_user(user).filter(status=Approval.Status.PENDING)


def paginate(found: ApprovalQuerySet, page: int) -> ApprovalQuerySet:
    """Oldest first; the id makes the order the same every time."""
    return found.order_by("created_at", "id")[(page - 1) * PER_PAGE : page * PER_PAGE]


def build_choices(found: ApprovalQuerySet) -> FilterChoices:
    agents = found.order_by("agent").values_list("agent", flat=True).distinct()
    people = found.order_by("requester__username").values_list("requester__username", flat=True).distinct()
    return FilterChoices(list(agents[:MAX_LENGTH]), list(people[:MAX_LENGTH]))


def _is_uuid(text: str) -> bool:
    try:
        return not text or bool(UUID(text))
    except ValueError:
        return False
