"""How methods treat an access token that is limited to some tools.

Such a token must not leave text or settings for a run that has more tools than the token. So every method and operation that
changes anything must declare one of these rules.
"""

from enum import StrEnum

from clawsite.accounts.models import User
from clawsite.infra.errors import Forbidden


class LimitedTokenRule(StrEnum):
    CARRIED = "carried"  # starts runs, which inherit the token's limits
    REFUSED = "refused"  # leaves something that runs without these limits read
    HARMLESS = "harmless"  # leaves nothing that a run reads, so it is allowed


def check_limited_token(user: User, rule: LimitedTokenRule | None, name: str) -> None:
    if rule is LimitedTokenRule.REFUSED and user.key_limits:
        raise Forbidden(
            f"this token is limited to some tools, and {name} affects runs that are not; use a token without limits, or sign in",
            details={"code": "TOKEN_LIMITED"},
        )
