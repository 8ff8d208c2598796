"""URL configuration. It composes views and contains no logic."""

from django.contrib import admin
from django.urls import path, re_path
from django.views.generic import RedirectView

from clawsite.api.metrics import metrics
from clawsite.api.openai.chat_completions import chat_completions
from clawsite.api.openai.models import get_model, list_models
from clawsite.api.openai.responses import create_response, retrieve_response
from clawsite.api.protocol_schema import protocol_json
from clawsite.api.rest.docs import docs
from clawsite.api.rest.mount import handle_request, openapi_json
from clawsite.api.tools_invoke import invoke_tool
from clawsite.connectors.webhook.views import receive_webhook
from clawsite.web import freezes, health, manifest, preferences
from clawsite.web.account import devices, profile, webhooks
from clawsite.web.admin import audit_link, dashboard
from clawsite.web.approvals import decisions, enable_agent, grants
from clawsite.web.approvals import history as approvals_history
from clawsite.web.approvals import queue as approvals
from clawsite.web.approvals import try_command as approvals_try
from clawsite.web.chat import attachments, page
from clawsite.web.policies import calls, policy_tests
from clawsite.web.policies import explain as policies
from clawsite.web.policies import history as policies_history
from clawsite.web.runs import pages as runs
from clawsite.web.sign_in import confirm_password, pages

admin.autodiscover()

urlpatterns = [
    path("", page.chat, name="chat"),
    path("sign-in/", pages.sign_in, name="sign-in"),
    path("confirm/", confirm_password.confirm_password, name="confirm"),
    path("sign-out/", pages.sign_out, name="sign-out"),
    path("first-admin/", pages.first_admin_page, name="first-admin"),
    path("first-admin/<str:token>/", pages.first_admin_link, name="first-admin-link"),
    path("account/", profile.account, name="account"),
    path("account/profile/", profile.change_profile, name="change-profile"),
    path("account/password/", profile.change_password, name="change-password"),
    path("account/tokens/", profile.create_token, name="make-token"),
    path("account/tokens/<int:pk>/revoke/", profile.revoke_token, name="revoke-token"),
    path("account/browsers/<int:pk>/sign-out/", profile.sign_out_browser, name="sign-out-browser"),
    path("account/browsers/sign-out-others/", profile.sign_out_others, name="sign-out-others"),
    path("account/devices/<int:pk>/revoke/", devices.revoke_device, name="revoke-device"),
    path("account/devices/requests/<str:pk>/approve/", devices.approve_pairing, name="approve-pairing"),
    path("account/devices/requests/<str:pk>/reject/", devices.reject_pairing, name="reject-pairing"),
    path("account/webhooks/<int:pk>/agree/", webhooks.agree_to_webhook, name="agree-to-hook"),
    path("account/webhooks/<int:pk>/refuse/", webhooks.decline_webhook, name="refuse-hook"),
    path("preferences/", preferences.change_preferences, name="preferences"),
    path("manifest.webmanifest", manifest.manifest, name="manifest"),
    path("attachments/", attachments.upload, name="upload"),
    path("attachments/<uuid:attachment_id>/", attachments.download, name="attachment"),
    path("runs/", runs.list_runs, name="runs"),
    path("runs/<int:pk>/", runs.show_run, name="run"),
    path("runs/<int:pk>/export/", runs.export_run, name="run-export"),
    path("stops/", freezes.list_freezes, name="stops"),
    path("stops/stop/", freezes.freeze, name="stop"),
    path("stops/resume/", freezes.resume, name="resume"),
    path("audit/", audit_link.audit_log, name="audit"),
    path("policies/", policies.show_explanation, name="policies"),
    path("policies/save/", policies.save_draft, name="policy-save"),
    path("policies/delete/", policies.delete_rule, name="policy-delete"),
    path("policies/calls/", calls.find_call, name="policy-call-lookup"),
    path("policies/calls/<int:pk>/", calls.show_call, name="policy-call"),
    path("policies/history/", policies_history.list_versions, name="policy-history"),
    path("policies/history/<int:number>/", policies_history.show_version, name="policy-version"),
    path("policies/history/<int:number>/restore/", policies_history.restore_version, name="policy-restore"),
    path("policies/tests/", policy_tests.list_tests, name="policy-tests"),
    path("policies/tests/new/", policy_tests.new_test, name="policy-test-new"),
    path("policies/tests/<int:pk>/", policy_tests.edit_test, name="policy-test"),
    path("policies/tests/<int:pk>/delete/", policy_tests.delete_policy_test, name="policy-test-delete"),
    path("approvals/", approvals.show_queue, name="approvals"),
    path("approvals/live/", approvals.live_changes, name="approvals-live"),
    path("approvals/count/", approvals.count_pending, name="approvals-count"),
    path("approvals/several/", decisions.decide_many, name="approvals-several"),
    path("approvals/let-ask/", enable_agent.enable_agent, name="let-ask"),
    path("approvals/history/", approvals_history.list_decided, name="approvals-history"),
    path("approvals/grants/", grants.list_grants, name="grants"),
    path("approvals/grants/<int:pk>/revoke/", grants.revoke_grant, name="grant-revoke"),
    path("approvals/try/", approvals_try.try_command, name="try-command"),
    path("approvals/<uuid:pk>/", approvals.show_approval, name="approval"),
    path("approvals/<uuid:pk>/in-chat/", approvals.show_in_chat, name="approval-in-chat"),
    path("approvals/<uuid:pk>/menu/<slug:which>/", approvals.show_menu, name="approval-menu"),
    path("approvals/<uuid:pk>/answer/", decisions.decide_approval, name="approval-answer"),
    path("approvals/<uuid:pk>/extend/", decisions.extend_approval, name="approval-extend"),
    path("approvals/<uuid:pk>/drop/", decisions.skip_approval, name="approval-drop"),
    path("api/protocol.json", protocol_json),
    path("api/openapi.json", openapi_json, name="openapi"),
    path("api/docs", docs, name="api-docs"),
    # Match any character, including line breaks, so that errors are always problem documents.
    re_path(r"^api/(?P<path>[\s\S]+)$", handle_request, name="rest"),
    path("tools/invoke", invoke_tool),
    path("hooks/<path:path>", receive_webhook),
    path("v1/models", list_models),
    path("v1/models/<path:name>", get_model),
    path("v1/chat/completions", chat_completions),
    path("v1/responses", create_response),
    path("v1/responses/<str:response_id>", retrieve_response),
    path("responses", create_response),
    path("responses/<str:response_id>", retrieve_response),
    path("control-ui", RedirectView.as_view(url="/")),  # OpenClaw's address of the same page
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    # Replace the admin's sign-in, sign-out and password form.
    path("admin/login/", pages.admin_sign_in),
    path("admin/logout/", pages.sign_out),
    path("admin/password_change/", RedirectView.as_view(url="/account/#password")),
    path("admin/dashboard/live/", dashboard.live_data, name="dashboard-live"),
    # Webhooks used to belong to the app `gateway`; bookmarks and links in old audit entries keep working.
    re_path(
        r"^admin/gateway/(?P<page>hook(?:delivery)?/.*)$",
        RedirectView.as_view(url="/admin/connectors/%(page)s", query_string=True),
    ),
    path("admin/", admin.site.urls),
]

handler400 = "clawsite.web.error_pages.bad_request"
handler403 = "clawsite.web.error_pages.forbidden"
handler404 = "clawsite.web.error_pages.not_found"
handler500 = "clawsite.web.error_pages.server_error"
