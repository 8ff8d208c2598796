"""Start a call: the last checks, in the transaction that marks the call as started.

Runs on the writer thread and may be retried, so it changes only the database.
"""

from agents.tool_calls.authorize import DecidedCall
from sessions_app.runs import freezes, tool_calls
from sessions_app.runs.lifecycle import find_stop_request
from sessions_app.runs.queue import ClaimedRun
from tools_app.authorize import find_current_denial
from tools_app.core.supervision import denial_text
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import read_current_offer
from tools_app.toolset import Toolset


def start_call(claimed: ClaimedRun, decided: DecidedCall, toolset: Toolset) -> str:
    """Mark a call as started. If it must not run after all, return the reason.

    A supervised call is checked again by the current policy and by its supervisor, which uses up its approval or grants.
    """
    freezes.check_not_frozen(claimed.agent, claimed.pk)
    ref, denial = decided.proposed.ref, ""
    if find_stop_request(claimed.pk) is not None:
        denial = "stopped: a stop of this run was requested. It did not run."
    elif (supervised := decided.proposed.supervised) and (supervision := decided.authorization.supervision):
        now = read_current_offer(toolset.query.tools)
        denial = find_current_denial(ref, toolset=toolset, rules=current_rules(), now=now)
        if not denial and (reason := supervised.check_still_allowed(claimed, supervision)):
            denial = denial_text(reason)
    tool_calls.mark_started(claimed, ref.id, ref.name, ref.arguments)
    return denial
