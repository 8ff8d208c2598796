"""Which sandbox commands get on this host. The answer is found once in each process, by trying; nobody falls back in silence."""

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
    """What the probe found. Blocking the first time: some tens of milliseconds."""
    return probe()


def require_level(wanted_min: SandboxLevel) -> SandboxLevel:
    """The level commands get here, at least the wanted one. SandboxUnavailable says what is missing."""
    found = probe_once()
    if found.level >= wanted_min:
        return found.level
    reasons = "; ".join(str(shortfall) for shortfall in found.why_not_higher)
    raise SandboxUnavailable(
        _("this requires sandbox level %(wanted)s, but this host has %(found)s (%(reasons)s)")
        % {"wanted": wanted_min.word, "found": found.level.word, "reasons": reasons}
    )
