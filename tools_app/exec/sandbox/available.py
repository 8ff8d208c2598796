"""The sandbox level available on this host. Probed once per process by trying it; never falls back silently."""

from functools import cache

from django.utils.translation import gettext as _

from tools_app.exec.sandbox.probe import ProbeResult, Shortfall, probe
from tools_app.exec.sandbox.types import Access, Sandbox, SandboxLevel, SandboxUnavailable

__all__ = [
    "Access",
    "ProbeResult",
    "Sandbox",
    "SandboxLevel",
    "SandboxUnavailable",
    "Shortfall",
    "probe_once",
    "require_level",
]


@cache
def probe_once() -> ProbeResult:
    """The probe result. The first call blocks for a few tens of milliseconds."""
    return probe()


def require_level(minimum: SandboxLevel) -> SandboxLevel:
    """The level commands get on this host, at least the given one. SandboxUnavailable says what is missing."""
    result = probe_once()
    if result.level >= minimum:
        return result.level
    reasons = "; ".join(str(shortfall) for shortfall in result.why_not_higher)
    raise SandboxUnavailable(
        _("this requires sandbox level %(wanted)s, but this host has %(found)s (%(reasons)s)")
        % {"wanted": minimum.label, "found": result.level.label, "reasons": reasons}
    )
