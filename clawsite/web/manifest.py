"""The web app manifest, which lets phones and desktops install Clawsite as an app. It contains no user data."""

from django.http import HttpRequest, JsonResponse
from django.templatetags.static import static
from django.utils.translation import get_language, gettext
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from clawsite.web.preferences import THEME_COLORS, theme_of

ICONS = (
    ("favicon.svg", "any", "image/svg+xml", "any"),
    ("icons/icon-192.png", "192x192", "image/png", "any"),
    ("icons/icon-512.png", "512x512", "image/png", "any"),
    ("icons/icon-maskable-512.png", "512x512", "image/png", "maskable"),
)


@require_safe
@vary_on_headers("Cookie", "Accept-Language")
def manifest(request: HttpRequest) -> JsonResponse:
    paper = THEME_COLORS["dark" if theme_of(request) == "dark" else "light"]  # a manifest has only one color
    body = {
        "id": "/",
        "name": gettext("Clawsite"),
        "short_name": gettext("Clawsite"),
        "description": gettext("Agents that use tools and show every step."),
        "lang": get_language(),
        "dir": "ltr",
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "background_color": paper,
        "theme_color": paper,
        "icons": [{"src": static(file), "sizes": sizes, "type": kind, "purpose": purpose} for file, sizes, kind, purpose in ICONS],
    }
    return JsonResponse(body, content_type="application/manifest+json", json_dumps_params={"ensure_ascii": False})
