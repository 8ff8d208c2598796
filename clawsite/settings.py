"""Django settings and values from the environment. docs/deployment.md describes the environment variables."""

import os
import sys
from pathlib import Path

from clawsite.infra.config import environment

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = environment.state_directory(default=BASE_DIR / ".clawsite")

DEBUG = os.environ.get("CLAWSITE_DEBUG") == "1"
SECRET_KEY = environment.secret_key(HOME)
GATEWAY_TOKEN = environment.gateway_token(HOME)

HOST = os.environ.get("CLAWSITE_HOST", "127.0.0.1")
PORT = int(environment.read_number("CLAWSITE_PORT", 8765))
# The origins of our pages. Scheme, host and port must match exactly: other programs on the same host share our cookies.
ALLOWED_ORIGINS = environment.allowed_origins(HOST, PORT)
ALLOWED_HOSTS = environment.hosts_of(ALLOWED_ORIGINS)
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
# Origins of other programs' pages that can open a socket with a token. Cookies are ignored there, and forms are rejected.
CLIENT_ORIGINS = environment.client_origins()
# Number of reverse proxies, each of which appends to X-Forwarded-For. With 0 the header is ignored.
TRUSTED_PROXIES = int(environment.read_number("CLAWSITE_TRUSTED_PROXIES", 0))
BEHIND_TLS = all(origin.startswith("https://") for origin in ALLOWED_ORIGINS)

INSTALLED_APPS = [
    # WebSockets for `runserver`. Not loaded otherwise, because it imports Twisted.
    *(["daphne"] if sys.argv[1:2] == ["runserver"] else []),
    "unfold",  # the admin theme; before the admin, because it replaces its templates
    "unfold.contrib.filters",
    # urls.py loads the admin pages. Workers and commands don't: they start 0.4 s faster and use 15 MB less.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "clawsite.infra",
    "clawsite.accounts",
    "sessions_app",
    "tools_app",
    "agents",
    "clawsite.connectors",
    "clawsite.gateway",
]

MIDDLEWARE = [
    "clawsite.web.middleware.instrumentation.observing_middleware",
    "django.middleware.security.SecurityMiddleware",
    # Before static files, so that they get the headers too.
    "clawsite.web.middleware.security_headers.ContentSecurityPolicyMiddleware",
    "clawsite.web.middleware.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "clawsite.web.middleware.audit_actor.acting_middleware",
    "clawsite.web.middleware.signed_in.SignedInMiddleware",
    "clawsite.web.sign_in.confirm_password.ConfirmationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "clawsite.urls"
ASGI_APPLICATION = "clawsite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "clawsite.web.preferences.preferences",
                "clawsite.web.approvals.badge.pending_approvals",
            ]
        },
    }
]

DATABASES = {"default": environment.database_settings(os.environ.get("DATABASE_URL", ""), HOME)}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # Unfold would load psycopg for PostgreSQL fields, which no model has: 11 MB in each process.
    sys.modules.setdefault("django.contrib.postgres.fields", None)  # type: ignore[arg-type]  # None makes the import fail
REDIS_URL = os.environ.get("REDIS_URL", "")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
# How long a password stays confirmed for changes to security settings.
CONFIRM_MINUTES = environment.read_number("CLAWSITE_CONFIRM_MINUTES", 30, minimum=1)
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"

SESSION_COOKIE_NAME = "clawsite_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_NAME = "clawsite_csrf"
# The proxy header for the scheme is trusted only if a proxy is configured.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]  # each in its own language
LANGUAGE_COOKIE_NAME = "clawsite_language"
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["clawsite.formats"]
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "clawsite.web.middleware.static_files.HashedAssets"},
}

# Colors are in static/css/admin.css and scripts are omitted because of the content security policy: docs/adr/0012-admin-look.md.
UNFOLD = {
    "SITE_TITLE": "Clawsite",
    "SITE_HEADER": "Clawsite",
    "SHOW_VIEW_ON_SITE": False,
    "THEME": "clawsite.web.preferences.theme_of",
    "DASHBOARD_CALLBACK": "clawsite.web.admin.dashboard.overview",
    "SIDEBAR": {"navigation": "clawsite.web.admin.sidebar.navigation"},
}

LOGGING_CONFIG = None  # each process calls clawsite.infra.observability.logs.configure() with its name
LOG_DIRECTORY = HOME / "logs"

# Runs. docs/reliability.md promises the defaults; tests use shorter times.
DEFAULT_MODEL = os.environ.get("CLAWSITE_MODEL", "")
LEASE_SECONDS = environment.read_number("CLAWSITE_LEASE_SECONDS", 20)
HEARTBEAT_SECONDS = environment.read_number("CLAWSITE_HEARTBEAT_SECONDS", 5)
SWEEP_SECONDS = environment.read_number("CLAWSITE_SWEEP_SECONDS", 5)
POLL_SECONDS = environment.read_number("CLAWSITE_POLL_SECONDS", 1)  # polling in addition to wake-ups, which can be lost
DRAIN_SECONDS = environment.read_number("CLAWSITE_DRAIN_SECONDS", 10)
RUN_TIMEOUT_SECONDS = environment.read_number("CLAWSITE_RUN_TIMEOUT_SECONDS", 600)
TOOL_TIMEOUT_SECONDS = environment.read_number("CLAWSITE_TOOL_TIMEOUT_SECONDS", 120, minimum=1)  # unless the tool sets its own
TOOL_RESULT_KB = environment.read_number("CLAWSITE_TOOL_RESULT_KB", 100, minimum=1)  # longer text is cut in the middle
MAX_RESCUES = 3
# Days until events of ended runs, sessions of single /v1 requests and webhook deliveries are deleted; 0 keeps them.
EVENT_DAYS = environment.read_number("CLAWSITE_EVENT_DAYS", 30)
STATELESS_DAYS = environment.read_number("CLAWSITE_STATELESS_DAYS", 30)
HOOK_LOG_DAYS = environment.read_number("CLAWSITE_HOOK_LOG_DAYS", 30)
MAX_QUEUED_PER_USER = 100
# Above the sum of the lanes' limits (64 + 5 + 8 + 2), so that no lane can use up a single worker's capacity.
WORKER_CONCURRENCY = int(environment.read_number("CLAWSITE_WORKER_CONCURRENCY", 80))
RAW_STREAM_LOG = os.environ.get("CLAWSITE_RAW_STREAM_LOG", "")

# How often the audit log is chained, and the file that gets the chain head, preferably on another host ("" for none).
AUDIT_SEAL_SECONDS = 1.0
AUDIT_ANCHOR = os.environ.get("CLAWSITE_AUDIT_ANCHOR", "").strip()

# Sockets: handshake timeout, and rate limits against floods of cheap requests.
GATEWAY_HANDSHAKE_SECONDS = 15.0
GATEWAY_REQUESTS_PER_SECOND = 2_000.0
GATEWAY_REQUESTS_BURST = 4_000.0
GATEWAY_ACCOUNT_REQUESTS_PER_SECOND = 6_000.0
GATEWAY_ACCOUNT_REQUESTS_BURST = 12_000.0
GATEWAY_KNOCKS_PER_ADDRESS = 1_024

# Access to /metrics besides operators and auditors: with this token, or, if METRICS_LOOPBACK is set, without one from this host.
METRICS_TOKEN = os.environ.get("CLAWSITE_METRICS_TOKEN", "").strip()
METRICS_LOOPBACK = os.environ.get("CLAWSITE_METRICS_LOOPBACK") == "1"
# The OpenAI-compatible API: stop the run when its client disconnects; how long a request waits for approval.
HTTP_ABORT_ON_DISCONNECT = environment.read_boolean("CLAWSITE_HTTP_ABORT_ON_DISCONNECT", True)
HTTP_APPROVAL_WAIT_SECONDS = environment.read_number("CLAWSITE_HTTP_APPROVAL_WAIT_SECONDS", 120, minimum=0)

# Requests to URLs chosen by models and pages can only go to public addresses and to those listed here.
FETCH_ALLOW = environment.fetch_allowlist()
SEARCH_PROVIDER = os.environ.get("CLAWSITE_SEARCH_PROVIDER", "").strip().lower()  # "" for the first configured one
SEARXNG_URL = environment.searxng_url()
BRAVE_API_KEY = os.environ.get("BRAVE_API_KEY", "").strip()
