"""Which sandbox commands get on this host. The answer is found once in each process, by trying; nobody falls back in silence."""

from functools import cache

from django.utils.translation import gettext as _

from tools_app.exec.sandbox.probe import Probed, Shortfall, probe
from tools_app.exec.sandbox.types import Access, Level, Limits, Sandbox, SandboxUnavailable

__all__ = ["Access", "Level", "Limits", "Probed", "Sandbox", "SandboxUnavailable", "Shortfall", "available", "require"]


@cache
def available() -> Probed:
    """What the probe found. Blocking the first time: some tens of milliseconds."""
    return probe()


def require(wanted_min: Level) -> Level:
    """The level commands get here, at least the wanted one. SandboxUnavailable says what is missing."""
    found = available()
    if found.level >= wanted_min:
        return found.level
    reasons = "; ".join(str(shortfall) for shortfall in found.why_not_higher)
    raise SandboxUnavailable(
        _("this requires sandbox level %(wanted)s, but this host has %(found)s (%(reasons)s)")
        % {"wanted": wanted_min.word, "found": found.level.word, "reasons": reasons}
    )
