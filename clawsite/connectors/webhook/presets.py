"""Presets for new webhooks: initial form values and a sample body. Data only."""

from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Preset:
    title: "str | Promise"
    fields: dict[str, Any]
    sample: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


PRESETS = {
    "json": Preset(
        _("Generic JSON"),
        {
            "slug": "my-program",
            "name": "My program",
            "instructions": "Briefly summarize this and say whether anyone needs to act.",
            "message_template": "{{payload}}",
        },
        {"event": "backup", "status": "failed", "host": "db1"},
    ),
    "github": Preset(
        _("GitHub"),
        {
            "slug": "github",
            "name": "GitHub",
            "signature": "plain",
            "signature_header": "X-Hub-Signature-256",
            "delivery_header": "X-GitHub-Delivery",
            "instructions": "Briefly summarize this repository event and say whether anyone needs to act.",
            "message_template": (
                "Event: {{headers.x-github-event}} {{payload.action}}\nRepository: {{payload.repository.full_name}}\n"
                "By: {{payload.sender.login}}\nIssue: {{payload.issue.title}}\n{{payload.issue.body}}\n"
                "Pull request: {{payload.pull_request.title}}\n{{payload.pull_request.body}}\n"
                "Commit: {{payload.head_commit.message}}"
            ),
            "session_key_template": "{{payload.repository.full_name}}",
            "make_token": False,
        },
        {
            "action": "opened",
            "repository": {"full_name": "octo/hello"},
            "sender": {"login": "octocat"},
            "issue": {"title": "It rains in", "body": "The roof is open."},
        },
        {"x-github-event": "issues", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
    ),
    "mail": Preset(
        _("Email forwarding"),
        {
            "slug": "mail",
            "name": "Mail",
            "instructions": "An email arrived. Summarize in two sentences who wants what. Don't reply to anyone.",
            "message_template": (
                "From: {{payload.messages[0].from}}\nSubject: {{payload.messages[0].subject}}\n\n"
                "{{payload.messages[0].snippet}}\n{{payload.messages[0].body}}"
            ),
            "session_key_template": "{{payload.messages[0].id}}",
        },
        {
            "messages": [
                {"id": "m1", "from": "ada@example.org", "subject": "Tomorrow", "snippet": "Shall we meet at ten?", "body": ""}
            ]
        },
    ),
}
