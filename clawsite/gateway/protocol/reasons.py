"""Reasons on the wire: English text in a field of its own, and a code with parameters for programs."""

from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from clawsite.infra.reasons import Reason


class ReasonCode(TypedDict):
    """`code` says which text it is and `params` what is filled in; a parameter can be a {code, params} itself."""

    code: NotRequired[str]
    params: NotRequired[dict[str, Any]]


def to_code(reason: Reason) -> ReasonCode:
    return cast(ReasonCode, reason.to_json())
