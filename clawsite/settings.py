"""Composition only: what is installed, and where the environment's wishes go. Names: docs/deployment.md."""

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
# Where browsers reach us, scheme, host and port each exact: other programs on the same host share our cookies.
ALLOWED_ORIGINS = environment.allowed_origins(HOST, PORT)
ALLOWED_HOSTS = environment.hosts_of(ALLOWED_ORIGINS)
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
# Pages of other programs that may open a socket with a token. Their cookies do not count, and they post no forms.
CLIENT_ORIGINS = environment.client_origins()
# Reverse proxies in front of us, each of which appends to X-Forwarded-For; without any the header is ignored.
TRUSTED_PROXIES = int(environment.read_number("CLAWSITE_TRUSTED_PROXIES", 0))
BEHIND_TLS = all(origin.startswith("https://") for origin in ALLOWED_ORIGINS)

INSTALLED_APPS = [
    # Gives `runserver` the WebSocket; loaded for nothing else, because it brings Twisted along.
    *(["daphne"] if sys.argv[1:2] == ["runserver"] else []),
    "unfold",  # the admin's look; before the admin, whose templates it replaces
    "unfold.contrib.filters",
    # Its pages are loaded with the addresses: workers and commands start 0.4 s earlier and 15 MB smaller without them.
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
    # Before static files, so that they carry the headers too.
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
                "clawsite.web.approvals.badge.open_questions",
            ]
        },
    }
]

DATABASES = {"default": environment.database_settings(os.environ.get("DATABASE_URL", ""), HOME)}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # The admin's look would load psycopg for fields that nothing here has: 11 MB in each process.
    sys.modules.setdefault("django.contrib.postgres.fields", None)  # type: ignore[arg-type]  # how Python says: not there
REDIS_URL = os.environ.get("REDIS_URL", "")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
CONFIRM_MINUTES = environment.read_number(
    "CLAWSITE_CONFIRM_MINUTES", 30, least=1
)  # a password older than that is asked for before rules are changed
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"

SESSION_COOKIE_NAME = "clawsite_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_NAME = "clawsite_csrf"
# What a proxy says about the scheme is believed only when the operator says that there is one.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]  # each in its own words, for those who read no other
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

# Colours are in static/css/admin.css and scripts are left out, for the content policy's sake: docs/adr/0012-admin-look.md.
UNFOLD = {
    "SITE_TITLE": "Clawsite",
    "SITE_HEADER": "Clawsite",
    "SHOW_VIEW_ON_SITE": False,
    "THEME": "clawsite.web.preferences.theme_of",
    "DASHBOARD_CALLBACK": "clawsite.web.admin.dashboard.overview",
    "SIDEBAR": {"navigation": "clawsite.web.admin.sidebar.navigation"},
}

LOGGING_CONFIG = None  # clawsite.infra.observability.logs.configure() is called by each process with its own name
LOG_DIRECTORY = HOME / "logs"

# Runs. The defaults are the promises of docs/reliability.md; tests shorten them.
DEFAULT_MODEL = os.environ.get("CLAWSITE_MODEL", "")
LEASE_SECONDS = environment.read_number("CLAWSITE_LEASE_SECONDS", 20)
HEARTBEAT_SECONDS = environment.read_number("CLAWSITE_HEARTBEAT_SECONDS", 5)
SWEEP_SECONDS = environment.read_number("CLAWSITE_SWEEP_SECONDS", 5)
POLL_SECONDS = environment.read_number("CLAWSITE_POLL_SECONDS", 1)  # behind every wake-up, which may be lost
DRAIN_SECONDS = environment.read_number("CLAWSITE_DRAIN_SECONDS", 10)
RUN_TIMEOUT_SECONDS = environment.read_number("CLAWSITE_RUN_TIMEOUT_SECONDS", 600)
TOOL_TIMEOUT_SECONDS = environment.read_number(
    "CLAWSITE_TOOL_TIMEOUT_SECONDS", 120, least=1
)  # of a tool that names no time of its own
TOOL_RESULT_KB = environment.read_number(
    "CLAWSITE_TOOL_RESULT_KB", 100, least=1
)  # of text in one result; the middle of a longer one is cut
MAX_RESCUES = 3
EVENT_DAYS = environment.read_number(
    "CLAWSITE_EVENT_DAYS", 30
)  # events of runs that ended earlier are deleted; 0 keeps them for ever
STATELESS_DAYS = environment.read_number("CLAWSITE_STATELESS_DAYS", 30)  # sessions of a single /v1 request; 0 keeps them for ever
HOOK_LOG_DAYS = environment.read_number("CLAWSITE_HOOK_LOG_DAYS", 30)  # deliveries to webhooks; 0 keeps them for ever
MAX_QUEUED_PER_USER = 100
# Above the sum of the lanes' maxima (64 + 5 + 8 + 2), so that no lane can take a lone worker's last place from another.
WORKER_CONCURRENCY = int(environment.read_number("CLAWSITE_WORKER_CONCURRENCY", 80))
RAW_STREAM_LOG = os.environ.get("CLAWSITE_RAW_STREAM_LOG", "")

# The audit log is chained this often; the head of the chain is noted in a file, best on another host's disk ("": nowhere).
AUDIT_SEAL_SECONDS = 1.0
AUDIT_ANCHOR = os.environ.get("CLAWSITE_AUDIT_ANCHOR", "").strip()

# Sockets: how long `connect` may take, and a guard against floods of cheap requests on one of them.
GATEWAY_HANDSHAKE_SECONDS = 15.0
GATEWAY_REQUESTS_PER_SECOND = 2_000.0
GATEWAY_REQUESTS_BURST = 4_000.0
GATEWAY_ACCOUNT_REQUESTS_PER_SECOND = 6_000.0
GATEWAY_ACCOUNT_REQUESTS_BURST = 12_000.0
GATEWAY_KNOCKS_PER_ADDRESS = 1_024

# Who may read /metrics besides operators and auditors: whoever has this token; programs on this host, if the operator says so.
METRICS_TOKEN = os.environ.get("CLAWSITE_METRICS_TOKEN", "").strip()
METRICS_LOOPBACK = os.environ.get("CLAWSITE_METRICS_LOOPBACK") == "1"
# The OpenAI-compatible API: whether a run ends when its client goes away, and how long a request waits for people who approve.
HTTP_ABORT_ON_DISCONNECT = environment.read_boolean("CLAWSITE_HTTP_ABORT_ON_DISCONNECT", True)
HTTP_APPROVAL_WAIT_SECONDS = environment.read_number("CLAWSITE_HTTP_APPROVAL_WAIT_SECONDS", 120, least=0)

# What leaves the host for URLs that models and pages choose: public addresses, and what is named here.
FETCH_ALLOW = environment.fetch_allowlist()
SEARCH_PROVIDER = os.environ.get("CLAWSITE_SEARCH_PROVIDER", "").strip().lower()  # "": the first one that is configured
SEARXNG_URL = environment.searxng_url()
BRAVE_API_KEY = os.environ.get("BRAVE_API_KEY", "").strip()
