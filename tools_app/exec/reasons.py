"""Texts of denied commands, closed approval requests and reasons for approval that the exec gate itself does not give. Pure."""

from clawsite.infra.reasons import gettext_noop as _
from clawsite.infra.reasons import register_reasons

register_reasons(
    {
        "exec.not_planned": _("The command could not be planned."),
        "exec.not_reviewed": _("The command was not reviewed."),
        "exec.plan_failed": _("The command could not be planned because of an unexpected error ({error})."),
        "call.not_planned": "{problem}",
        "call.unreadable_arguments": _("the arguments could not be read: {error} Send them as one JSON object."),
        "approval.lost_permission": _("The approver no longer has permission to approve it."),
        "approval.two_approvers": _("The rules now require two approvers."),
        "gate.asked-anew": _("It was approved before, but needs approval again. {lapse}"),
        "exec.no_rule": _("No exec rule allows commands here. An operator can let the agent request them."),
        "exec.disabled": _("The exec rule for {scope} disables commands."),
        "exec.isolation": _("The exec rules require the sandbox {level}, which this host does not have."),
        "exec.no_network": _("The exec rules no longer allow network access. Request the command again if it is still needed."),
        "exec.several": "{first} {second}",
        "exec.account_disabled": _("The requester's account is disabled."),
        "exec.changed": _(
            "It is no longer the command that needed approval; changed: {fields}. Request it again if it is still needed."
        ),
        "exec.not_comparable": _(
            "The approval is from an earlier version and can't be checked. Request the command again if it is still needed."
        ),
        "exec.expired": _("The approval request expired."),
        "exec.skipped": _("The requester skipped the command."),
        "exec.denied": _("An approver denied the command."),
        "exec.denied_because": _("An approver denied the command: {reason}."),
        "exec.used": _("Its approval was already used."),
        "exec.lapsed": _("Its approval is no longer valid. {lapse} Request it again if it is still needed."),
        "exec.approval_invalid": _("Its approval is no longer valid."),
        "exec.grant_revoked": _("The grant that allowed it was just revoked. Request it again if it is still needed."),
        "approval.expired": _("No decision before the deadline."),
        "approval.skipped": _("The command is no longer needed."),
        "approval.run_ended": _("The run ended: {reason}."),
        "gate.every-time": _("It needs approval every time."),
        "gate.outside": _("{requester} will run this command outside Clawsite."),
        "gate.runs-elsewhere": _("The command runs outside Clawsite."),
        "gate.isolation": "{lack}",
        "gate.no-sandbox": _("Without a sandbox, every command needs approval."),
        "changed.several": "{first}, {second}",
        "changed.line": _("the command line"),
        "changed.request": _("how it was requested"),
        "changed.directory": _("its directory"),
        "changed.program": _("a program it would start"),
        "changed.findings": _("the exec gate's findings"),
        "changed.script": _("the content of a script it would run"),
        "changed.environment": _("its environment"),
        "changed.sandbox": _("the sandbox of this host"),
        "exec.frozen_by": _("stopped by {by}: {reason}."),
        "exec.run_stopped": _("The run is being stopped."),
        "exec.changed_since": _("This has changed since the command was allowed: {what}."),
        "exec.run_lost": _("The worker lost the run before the command could start."),
        "gate.input": _("It is input for `{name}`, which runs `{line}`. What a program does with its input can't be predicted."),
        "exec.input_run_lost": _("The worker lost the run before the input was sent."),
        "exec.input_changed": _("The input differs from what was allowed."),
    }
)
