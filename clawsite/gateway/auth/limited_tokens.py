"""What becomes of a request that comes with a token that may use some tools only.

Such a token must not leave words or settings for a run that has more tools than itself. So every method and operation that changes
anything says which of these it is; one that does not say cannot be declared.
"""

from enum import StrEnum

from clawsite.accounts.models import User
from clawsite.infra.errors import Forbidden


class LimitedTokenRule(StrEnum):
    CARRIED = "carried"  # what it starts are runs, and they take the limits along
    REFUSED = "refused"  # what it leaves is read by runs that do not have them
    HARMLESS = "harmless"  # it leaves nothing that a run reads


def check_limited_token(user: User, what: LimitedTokenRule | None, name: str) -> None:
    if what is LimitedTokenRule.REFUSED and user.key_limits:
        raise Forbidden(
            f"this token is limited to some tools, and {name} reaches runs that are not; use one without limits, or sign in",
            details={"code": "TOKEN_LIMITED"},
        )
