"""Which address is answered by whom. Composition only."""

from django.contrib import admin
from django.urls import path, re_path
from django.views.generic import RedirectView

from clawsite.api.hooks import receive_hook
from clawsite.api.metrics import metrics
from clawsite.api.openai.chat_completions import chat_completions
from clawsite.api.openai.models import model, models
from clawsite.api.openai.responses import one_response, responses
from clawsite.api.protocol_schema import protocol_json
from clawsite.api.rest.docs import docs
from clawsite.api.rest.mount import openapi_json, rest
from clawsite.api.tools_invoke import invoke_tool
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
    path("confirm/", confirm_password.confirm, name="confirm"),
    path("sign-out/", pages.sign_out, name="sign-out"),
    path("first-admin/", pages.first_admin_page, name="first-admin"),
    path("first-admin/<str:token>/", pages.first_admin_link, name="first-admin-link"),
    path("account/", profile.account, name="account"),
    path("account/profile/", profile.change_profile, name="change-profile"),
    path("account/password/", profile.change_password, name="change-password"),
    path("account/tokens/", profile.make_token, name="make-token"),
    path("account/tokens/<int:pk>/revoke/", profile.revoke, name="revoke-token"),
    path("account/browsers/<int:pk>/sign-out/", profile.sign_out_browser, name="sign-out-browser"),
    path("account/browsers/sign-out-others/", profile.sign_out_others, name="sign-out-others"),
    path("account/devices/<int:pk>/revoke/", devices.revoke_device, name="revoke-device"),
    path("account/devices/requests/<str:pk>/approve/", devices.approve, name="approve-pairing"),
    path("account/devices/requests/<str:pk>/reject/", devices.reject, name="reject-pairing"),
    path("account/webhooks/<int:pk>/agree/", webhooks.agree, name="agree-to-hook"),
    path("account/webhooks/<int:pk>/refuse/", webhooks.refuse, name="refuse-hook"),
    path("preferences/", preferences.change, name="preferences"),
    path("manifest.webmanifest", manifest.manifest, name="manifest"),
    path("attachments/", attachments.upload, name="upload"),
    path("attachments/<uuid:attachment_id>/", attachments.download, name="attachment"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<int:pk>/", runs.run, name="run"),
    path("runs/<int:pk>/export/", runs.export, name="run-export"),
    path("stops/", freezes.stops, name="stops"),
    path("stops/stop/", freezes.stop, name="stop"),
    path("stops/resume/", freezes.resume, name="resume"),
    path("audit/", audit_link.audit_log, name="audit"),
    path("policies/", policies.explain, name="policies"),
    path("policies/save/", policies.save, name="policy-save"),
    path("policies/delete/", policies.delete, name="policy-delete"),
    path("policies/calls/", calls.look_up, name="policy-call-lookup"),
    path("policies/calls/<int:pk>/", calls.call, name="policy-call"),
    path("policies/history/", policies_history.history, name="policy-history"),
    path("policies/history/<int:number>/", policies_history.version, name="policy-version"),
    path("policies/history/<int:number>/restore/", policies_history.restore, name="policy-restore"),
    path("policies/tests/", policy_tests.tests, name="policy-tests"),
    path("policies/tests/new/", policy_tests.new_test, name="policy-test-new"),
    path("policies/tests/<int:pk>/", policy_tests.edit_test, name="policy-test"),
    path("policies/tests/<int:pk>/delete/", policy_tests.remove_test, name="policy-test-delete"),
    path("approvals/", approvals.queue, name="approvals"),
    path("approvals/live/", approvals.live, name="approvals-live"),
    path("approvals/count/", approvals.count, name="approvals-count"),
    path("approvals/several/", decisions.several, name="approvals-several"),
    path("approvals/let-ask/", enable_agent.let, name="let-ask"),
    path("approvals/history/", approvals_history.history, name="approvals-history"),
    path("approvals/grants/", grants.listing, name="grants"),
    path("approvals/grants/<int:pk>/revoke/", grants.revoke, name="grant-revoke"),
    path("approvals/try/", approvals_try.try_command, name="try-command"),
    path("approvals/<uuid:pk>/", approvals.one, name="approval"),
    path("approvals/<uuid:pk>/in-chat/", approvals.in_chat, name="approval-in-chat"),
    path("approvals/<uuid:pk>/menu/<slug:which>/", approvals.menu, name="approval-menu"),
    path("approvals/<uuid:pk>/answer/", decisions.answer, name="approval-answer"),
    path("approvals/<uuid:pk>/extend/", decisions.extend, name="approval-extend"),
    path("approvals/<uuid:pk>/drop/", decisions.drop, name="approval-drop"),
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
    path("admin/login/", pages.admin_sign_in),
    path("admin/logout/", pages.sign_out),
    path("admin/password_change/", RedirectView.as_view(url="/account/#password")),
    path("admin/dashboard/live/", dashboard.live, name="dashboard-live"),
    path("admin/", admin.site.urls),
]

handler400 = "clawsite.web.error_pages.bad_request"
handler403 = "clawsite.web.error_pages.forbidden"
handler404 = "clawsite.web.error_pages.not_found"
handler500 = "clawsite.web.error_pages.server_error"
