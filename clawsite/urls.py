"""Which address is answered by whom. Composition only."""

from django.contrib import admin
from django.urls import path

from clawsite.api.schema import protocol_json
from clawsite.web import chat, entry, health

urlpatterns = [
    path("", chat.chat, name="chat"),
    path("sign-in/", entry.sign_in, name="sign-in"),
    path("sign-out/", entry.sign_out, name="sign-out"),
    path("first-admin/", entry.first_admin_page, name="first-admin"),
    path("first-admin/<str:token>/", entry.first_admin_link, name="first-admin-link"),
    path("api/protocol.json", protocol_json),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    # The admin's own sign-in and sign-out, replaced by ours.
    path("admin/login/", entry.admin_sign_in),
    path("admin/logout/", entry.sign_out),
    path("admin/", admin.site.urls),
]
