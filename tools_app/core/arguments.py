"""Tool arguments: a pydantic model that validates them, and its JSON Schema, simple enough for every provider. Pure.

Schemas from MCP servers and plugins are simplified by tools_app.schemas.normalize instead.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_ERRORS_SHOWN = 5
Check = Callable[[dict[str, Any]], Any]  # arguments from the model -> arguments for the tool; raises BadArguments


class ToolArgs(BaseModel):
    """Base of every tool's arguments. Unknown arguments are reported to the model, not silently dropped."""

    model_config = ConfigDict(extra="forbid")


_BLANK_ALLOWED = object()
# A required text that may be empty, such as file content. Any other blank required text counts as missing.
BlankAllowedStr = Annotated[str, _BLANK_ALLOWED]


class BadArguments(Exception):
    """The arguments don't match the tool's parameters. `faults` are (path, problem) pairs; `missing` are names."""

    def __init__(self, faults: Sequence[tuple[str, str]], missing: Sequence[str] = ()) -> None:
        absent = [f"Missing required parameter: {', '.join(missing)}"] if missing else []
        super().__init__(
            "; ".join([*absent, *(f"`{path or 'arguments'}`: {problem}" for path, problem in faults[:MAX_ERRORS_SHOWN])])
        )


def make_check(args: type[ToolArgs]) -> Check:
    """Return a check that validates arguments with their model. Errors name the path and the problem, never the value."""
    fields = args.model_fields.items()
    never_blank = [name for name, f in fields if f.is_required() and f.annotation is str and _BLANK_ALLOWED not in f.metadata]

    def check(arguments: dict[str, Any]) -> ToolArgs:
        blank = [name for name in never_blank if isinstance(value := arguments.get(name), str) and not value.strip()]
        try:
            checked = args.model_validate(arguments)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
        else:
            faults = []
            if not blank:
                return checked
        located = [(".".join(map(str, each["loc"])), each) for each in faults]
        missing = blank + [path for path, each in located if each["type"] == "missing"]
        raise BadArguments([(path, each["msg"]) for path, each in located if each["type"] != "missing"], missing)

    return check


def json_schema(args: type[BaseModel]) -> dict[str, Any]:
    """Return the arguments as the plain JSON Schema that every provider accepts: nested models inlined, no titles, no unions."""
    schema = args.model_json_schema()
    plain = _simplify(schema, schema.get("$defs", {}), inside=(args.__name__,))
    plain.pop("description", None)  # the class docstring is for developers
    plain.setdefault("properties", {})
    return plain


def _simplify(schema: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if name in inside:
            raise TypeError(f"{name} contains itself, which providers do not accept")
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _simplify(definitions[name] | rest, definitions, (*inside, name))
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            raise TypeError(f"{inside[-1]} has {union}, which providers reject: use a default instead of Optional or a union")
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("title", "$defs"):
            continue
        if key == "properties":
            plain[key] = {name: _simplify(each, definitions, inside) for name, each in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            plain[key] = _simplify(value, definitions, inside)
        elif key == "const":
            plain["enum"] = [value]
        else:
            plain[key] = value
    return plain
