"""Render docs/protocol.md: the handwritten introduction, and tables generated from the declared methods and events."""

from typing import Any

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.server.docs_intro import INTRODUCTION
from clawsite.gateway.server.schema import protocol_schema

Schema = dict[str, Any]


def render_protocol_docs() -> str:
    schema = protocol_schema()
    parts = [INTRODUCTION, "## Methods\n", _render_overview(schema["methods"])]
    parts += [_render_method(name, method) for name, method in schema["methods"].items()]
    parts += ["## Event payloads\n"]
    parts += [_render_event(name, event) for name, event in schema["events"].items()]
    parts += [
        "## Error codes\n",
        _render_table(("code", "meaning"), [(f"`{code}`", meaning) for code, meaning in schema["errorCodes"].items()]),
    ]
    parts += ["## Close codes\n", _render_table(("code", "meaning"), list(schema["closeCodes"].items()))]
    return "\n".join(parts)


def _render_overview(methods: Schema) -> str:
    rows = [
        (f"[`{name}`](#{_anchor(name)})", _format_scope(method), _first_line(method["description"]))
        for name, method in methods.items()
    ]
    return _render_table(("method", "scope", ""), rows)


def _render_method(name: str, method: Schema) -> str:
    limited = " Not available to tokens with tool limits." if method["limitedTokens"] == LimitedTokenRule.REFUSED else ""
    parts = [f"### {name}\n", f"Scope: {_format_scope(method)}.{limited} {_paragraphs(method['description'])}\n"]
    if rows := _list_properties(method["params"]):
        if note := method["params"].get("description"):
            parts.append(f"{_paragraphs(note)}\n")
        parts.append(_render_table(("parameter", "type", "default"), rows))
    if method["refused"]:
        parts.append(f"Rejected, because it would have no effect: {_render_rejected(method['refused'])}.\n")
    if rows := _list_properties(method["result"]):
        if note := method["result"].get("description"):
            parts.append(f"Response. {_paragraphs(note)}\n")
        else:
            parts.append("Response:\n")
        parts.append(
            _render_table(("property", "type", ""), [(name, kind, "optional" if default else "") for name, kind, default in rows])
        )
    return "\n".join(parts)


def _render_rejected(refused: dict[str, str]) -> str:
    """List the names, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())


def _render_event(name: str, event: Schema) -> str:
    payload = event["payload"]
    text = _paragraphs(payload.get("description", "")) + (" A slow client may miss it." if event["droppable"] else "")
    rows = [(name, kind, "optional" if default else "") for name, kind, default in _list_properties(payload)]
    return "\n".join([f"### Event {name}\n", f"{text}\n", _render_table(("property", "type", ""), rows)])


def _list_properties(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (name, type, default) of each property. The default is empty if required, a dash if optional without one."""
    required = set(schema.get("required", ()))
    rows = []
    for name, part in schema.get("properties", {}).items():
        default = "" if name in required else _format_default(part)
        rows.append((f"`{name}`", _format_type(part, schema.get("$defs", {})), default))
    return rows


def _format_default(part: Schema) -> str:
    if part.get("default") in (None, "", [], {}):
        return "–"
    return f"`{part['default']}`".lower() if isinstance(part["default"], bool) else f"`{part['default']}`"


def _format_type(part: Schema, defs: Schema) -> str:
    if "$ref" in part:
        return _format_type(defs[part["$ref"].rsplit("/", 1)[1]], defs)
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_format_type(choice, defs) for choice in part["anyOf"]))
    if "const" in part:
        return f"`{part['const']}`" if not isinstance(part["const"], bool) else f"`{str(part['const']).lower()}`"
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    match part.get("type"):
        case "array":
            return f"list of {_format_type(part.get('items', {}), defs)}"
        case "object" if part.get("properties"):
            return "{" + ", ".join(part["properties"]) + "}"
        case "integer" | "number":
            return f"{part['type']}{_format_range(part)}"
        case "string" if "maxLength" in part:
            return f"string, at most {part['maxLength']} characters"
        case None:
            return "anything"
        case kind:
            return str(kind)


def _format_range(part: Schema) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    if low is None and high is None:
        return ""
    return f" {low} to {high}" if high is not None else f" from {low}"


def _render_table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _format_scope(method: Schema) -> str:
    if method["role"] == "node":
        return "none, for nodes only"
    return " or ".join(f"`{scope}`" for scope in method["scopes"]) or "none"


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def _paragraphs(text: str) -> str:
    """Convert a docstring to Markdown: the same paragraphs, without line breaks."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _anchor(name: str) -> str:
    return name.replace(".", "")
