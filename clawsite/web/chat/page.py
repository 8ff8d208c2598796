"""The chat page. It renders only the empty page; all content arrives over the WebSocket."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@never_cache
@require_safe
@login_required
def chat(request: HttpRequest) -> HttpResponse:
    return render(request, "chat/page.html")
