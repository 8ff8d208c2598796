"""Which address is answered by whom. Composition only."""

from django.contrib import admin
from django.urls import path, re_path
from django.views.generic import RedirectView

from clawsite.api.docs import docs
from clawsite.api.hooks import receive_hook
from clawsite.api.metrics import metrics
from clawsite.api.mount import openapi_json, rest
from clawsite.api.openai_agents import model, models
from clawsite.api.openai_chat import chat_completions
from clawsite.api.openai_responses import one_response, responses
from clawsite.api.schema import protocol_json
from clawsite.api.tools import invoke_tool
from clawsite.web import (
    account,
    account_devices,
    account_hooks,
    approvals,
    approvals_answers,
    approvals_grants,
    approvals_history,
    approvals_offer,
    approvals_try,
    attachments,
    audit_entry,
    chat,
    confirmation,
    dashboard,
    entry,
    health,
    manifest,
    policies,
    policies_calls,
    policies_history,
    policies_tests,
    preferences,
    runs,
    stops,
)

admin.autodiscover()

urlpatterns = [
    path("", chat.chat, name="chat"),
    path("sign-in/", entry.sign_in, name="sign-in"),
    path("confirm/", confirmation.confirm, name="confirm"),
    path("sign-out/", entry.sign_out, name="sign-out"),
    path("first-admin/", entry.first_admin_page, name="first-admin"),
    path("first-admin/<str:token>/", entry.first_admin_link, name="first-admin-link"),
    path("account/", account.account, name="account"),
    path("account/profile/", account.change_profile, name="change-profile"),
    path("account/password/", account.change_password, name="change-password"),
    path("account/tokens/", account.make_token, name="make-token"),
    path("account/tokens/<int:pk>/revoke/", account.revoke, name="revoke-token"),
    path("account/browsers/<int:pk>/sign-out/", account.sign_out_browser, name="sign-out-browser"),
    path("account/browsers/sign-out-others/", account.sign_out_others, name="sign-out-others"),
    path("account/devices/<int:pk>/revoke/", account_devices.revoke_device, name="revoke-device"),
    path("account/devices/requests/<str:pk>/approve/", account_devices.approve, name="approve-pairing"),
    path("account/devices/requests/<str:pk>/reject/", account_devices.reject, name="reject-pairing"),
    path("account/webhooks/<int:pk>/agree/", account_hooks.agree, name="agree-to-hook"),
    path("account/webhooks/<int:pk>/refuse/", account_hooks.refuse, name="refuse-hook"),
    path("preferences/", preferences.change, name="preferences"),
    path("manifest.webmanifest", manifest.manifest, name="manifest"),
    path("attachments/", attachments.upload, name="upload"),
    path("attachments/<uuid:attachment_id>/", attachments.download, name="attachment"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<int:pk>/", runs.run, name="run"),
    path("runs/<int:pk>/export/", runs.export, name="run-export"),
    path("stops/", stops.stops, name="stops"),
    path("stops/stop/", stops.stop, name="stop"),
    path("stops/resume/", stops.resume, name="resume"),
    path("audit/", audit_entry.audit_log, name="audit"),
    path("policies/", policies.explain, name="policies"),
    path("policies/save/", policies.save, name="policy-save"),
    path("policies/delete/", policies.delete, name="policy-delete"),
    path("policies/calls/", policies_calls.look_up, name="policy-call-lookup"),
    path("policies/calls/<int:pk>/", policies_calls.call, name="policy-call"),
    path("policies/history/", policies_history.history, name="policy-history"),
    path("policies/history/<int:number>/", policies_history.version, name="policy-version"),
    path("policies/history/<int:number>/restore/", policies_history.restore, name="policy-restore"),
    path("policies/tests/", policies_tests.tests, name="policy-tests"),
    path("policies/tests/new/", policies_tests.new_test, name="policy-test-new"),
    path("policies/tests/<int:pk>/", policies_tests.edit_test, name="policy-test"),
    path("policies/tests/<int:pk>/delete/", policies_tests.remove_test, name="policy-test-delete"),
    path("approvals/", approvals.queue, name="approvals"),
    path("approvals/live/", approvals.live, name="approvals-live"),
    path("approvals/count/", approvals.count, name="approvals-count"),
    path("approvals/several/", approvals_answers.several, name="approvals-several"),
    path("approvals/let-ask/", approvals_offer.let, name="let-ask"),
    path("approvals/history/", approvals_history.history, name="approvals-history"),
    path("approvals/grants/", approvals_grants.listing, name="grants"),
    path("approvals/grants/<int:pk>/revoke/", approvals_grants.revoke, name="grant-revoke"),
    path("approvals/try/", approvals_try.try_command, name="try-command"),
    path("approvals/<uuid:pk>/", approvals.one, name="approval"),
    path("approvals/<uuid:pk>/in-chat/", approvals.in_chat, name="approval-in-chat"),
    path("approvals/<uuid:pk>/menu/<slug:which>/", approvals.menu, name="approval-menu"),
    path("approvals/<uuid:pk>/answer/", approvals_answers.answer, name="approval-answer"),
    path("approvals/<uuid:pk>/extend/", approvals_answers.extend, name="approval-extend"),
    path("approvals/<uuid:pk>/drop/", approvals_answers.drop, name="approval-drop"),
    path("api/protocol.json", protocol_json),
    path("api/openapi.json", openapi_json, name="openapi"),
    path("api/docs", docs, name="api-docs"),
    re_path(r"^api/(?P<path>[\s\S]+)$", rest, name="rest"),  # with line breaks too: a refusal is always a problem document
    path("tools/invoke", invoke_tool),
    path("hooks/<path:path>", receive_hook),
    path("v1/models", models),
    path("v1/models/<path:name>", model),
    path("v1/chat/completions", chat_completions),
    path("v1/responses", responses),
    path("v1/responses/<str:response_id>", one_response),
    path("responses", responses),
    path("responses/<str:response_id>", one_response),
    path("control-ui", RedirectView.as_view(url="/")),  # where OpenClaw has its page
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    # The admin's own sign-in, sign-out and password form, replaced by ours.
    path("admin/login/", entry.admin_sign_in),
    path("admin/logout/", entry.sign_out),
    path("admin/password_change/", RedirectView.as_view(url="/account/#password")),
    path("admin/dashboard/live/", dashboard.live, name="dashboard-live"),
    path("admin/", admin.site.urls),
]

handler400 = "clawsite.web.errors.bad_request"
handler403 = "clawsite.web.errors.forbidden"
handler404 = "clawsite.web.errors.not_found"
handler500 = "clawsite.web.errors.server_error"
