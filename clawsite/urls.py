"""Which address is answered by whom. Composition only."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from clawsite.api.schema import protocol_json
from clawsite.api.tools import invoke_tool
from clawsite.web import (
    account,
    attachments,
    chat,
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
)

urlpatterns = [
    path("", chat.chat, name="chat"),
    path("sign-in/", entry.sign_in, name="sign-in"),
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
    path("preferences/", preferences.change, name="preferences"),
    path("manifest.webmanifest", manifest.manifest, name="manifest"),
    path("attachments/", attachments.upload, name="upload"),
    path("attachments/<uuid:attachment_id>/", attachments.download, name="attachment"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<int:pk>/", runs.run, name="run"),
    path("runs/<int:pk>/export/", runs.export, name="run-export"),
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
    path("api/protocol.json", protocol_json),
    path("tools/invoke", invoke_tool),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    # The admin's own sign-in, sign-out and password form, replaced by ours.
    path("admin/login/", entry.admin_sign_in),
    path("admin/logout/", entry.sign_out),
    path("admin/password_change/", RedirectView.as_view(url="/account/#password")),
    path("admin/dashboard/live/", dashboard.live, name="dashboard-live"),
    path("admin/", admin.site.urls),
]

handler500 = "clawsite.web.errors.server_error"
