"""Reasons of decisions, as data: a code with parameters, stored as JSON and turned into text when someone reads it. Pure.

Each package registers the texts of its codes, next to the code that decides or, if that is expensive to import, in the app's
module `reasons`. Django imports these modules at start, so that every process can show every stored reason.

The model, logs and the audit log get English (`Reason.text`), pages get the reader's language
(`clawsite.infra.reason_texts.translate_reason`), programs get code and English text. Nothing parses the texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEGACY = "legacy"  # a plain text: stored before reasons were codes, or from a plugin
ReasonJson = dict[str, Any]

_texts: dict[str, str] = {LEGACY: "{text}"}


def gettext_noop(text: str) -> str:
    """Mark a text for translation."""
    return text


def register_reasons(texts: Mapping[str, str]) -> None:
    """Add codes with their English texts, which are also the translation keys. Placeholders are named, as in `str.format`."""
    for code, text in texts.items():
        if _texts.setdefault(code, text) != text:
            raise ValueError(f"reason code {code!r} is registered twice")


def registered_reasons() -> Mapping[str, str]:
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
    def text(self) -> str:
        """The text in English."""
        return format_text(_texts[self.code], self.params)

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
        return cls(code, **params) if code in _texts else cls(LEGACY, text=code)


def format_text(text: str, params: Mapping[str, Any]) -> str:
    """Insert the parameters. A missing one, in a row of another version, shows as its name."""
    return text.format_map(_Parameters({name: str(value) for name, value in params.items()}))


class _Parameters(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def _is_reason(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("code"), str)
