"""Reasons of decisions, as data: a code with parameters, stored as JSON and turned into text when someone reads it. Pure.

Each package registers the texts of its codes, next to the code that decides or in the app's module `reasons`. Django imports the
latter at start. Expensive modules are only named there (`register_later`) and imported when a process reads the first stored code
that it doesn't know, so that every process can show every stored reason.

The model, logs and the audit log get English (`Reason.text`), pages get the reader's language
(`clawsite.infra.reason_texts.translate_reason`), programs get code and English text. Nothing parses the texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

LEGACY = "legacy"  # a plain text: stored before reasons were codes, or from a plugin
ReasonJson = dict[str, Any]

_texts: dict[str, str] = {LEGACY: "{text}"}
_later: list[str] = []  # modules that register reasons when they are imported


def gettext_noop(text: str) -> str:
    """Mark a text for translation."""
    return text


def register_reasons(texts: Mapping[str, str]) -> None:
    """Add codes with their English texts, which are also the translation keys. Placeholders are named, as in `str.format`."""
    for code, text in texts.items():
        if _texts.setdefault(code, text) != text:
            raise ValueError(f"reason code {code!r} is registered twice")


def register_later(*modules: str) -> None:
    """Name modules that register reasons and are too expensive to import at start."""
    _later.extend(modules)


def is_registered(code: str) -> bool:
    """Whether the code is known in this process, without importing anything."""
    return code in _texts


def registered_reasons() -> Mapping[str, str]:
    """Return the texts of all codes."""
    while _later:
        import_module(_later.pop())
    return _texts


@dataclass(frozen=True, slots=True, init=False)
class Reason:
    """Why something was decided. Parameters are JSON values or other reasons."""

    code: str
    params: Mapping[str, Any]

    def __init__(self, code: str, /, **params: Any) -> None:
        if code not in _texts:
            raise ValueError(f"unregistered reason code {code!r}")
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "params", params)

    def __hash__(self) -> int:
        return hash(self.code)  # parameters may be unhashable

    @property
    def template(self) -> str:
        """The English text with placeholders, which is also the translation key."""
        return _texts[self.code]

    @property
    def text(self) -> str:
        """The text in English."""
        return format_text(self.template, self.params)

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> ReasonJson:
        params = {name: value.to_json() if isinstance(value, Reason) else value for name, value in self.params.items()}
        return {"code": self.code, "params": params} if params else {"code": self.code}

    @classmethod
    def of(cls, reason: "Reason | str") -> "Reason":
        """Return the reason, or wrap a plain text, such as a plugin's."""
        return reason if isinstance(reason, Reason) else cls(LEGACY, text=reason)

    @classmethod
    def from_json(cls, stored: Any) -> "Reason":
        """Read a stored reason. A plain string, or a code this version doesn't know, becomes a legacy reason with its text."""
        if not _is_reason(stored):
            return cls(LEGACY, text=str(stored))
        params = {name: cls.from_json(value) if _is_reason(value) else value for name, value in stored.get("params", {}).items()}
        code = stored["code"]
        known = code in _texts or code in registered_reasons()
        return cls(code, **params) if known else cls(LEGACY, text=code)


def format_text(text: str, params: Mapping[str, Any]) -> str:
    """Insert the parameters. A missing one, in a row of another version, shows as its name."""
    return text.format_map(_Parameters({name: str(value) for name, value in params.items()}))


class _Parameters(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def _is_reason(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("code"), str)
