"""The arguments of a tool: a pydantic model that checks them, and its JSON Schema, plain enough for every provider. Pure.

Schemas of others, from MCP servers and plugins, are made plain by tools_app.schemas.normalize instead.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_ERRORS_SHOWN = 5
Check = Callable[[dict[str, Any]], Any]  # arguments as the model sent them -> what the tool takes; or BadArguments


class ToolArgs(BaseModel):
    """Base of every tool's arguments. An unknown argument is an error the model is told, not a silent loss."""

    model_config = ConfigDict(extra="forbid")


_BLANK_ALLOWED = object()
# A required text that may well be empty, such as the content of a file. Any other required text that is blank counts as missing.
BlankAllowedStr = Annotated[str, _BLANK_ALLOWED]


class BadArguments(Exception):
    """The arguments do not fit the tool's parameters: names of the missing ones, (place, what is wrong with it) of others."""

    def __init__(self, faults: Sequence[tuple[str, str]], missing: Sequence[str] = ()) -> None:
        absent = [f"Missing required parameter: {', '.join(missing)}"] if missing else []
        super().__init__(
            "; ".join([*absent, *(f"`{place or 'arguments'}`: {words}" for place, words in faults[:MAX_ERRORS_SHOWN])])
        )


def make_check(args: type[ToolArgs]) -> Check:
    """Arguments checked by their model. Faults are told by place and words, never with the value that was sent."""
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
        placed = [(".".join(map(str, each["loc"])), each) for each in faults]
        missing = blank + [place for place, each in placed if each["type"] == "missing"]
        raise BadArguments([(place, each["msg"]) for place, each in placed if each["type"] != "missing"], missing)

    return check


def json_schema(args: type[BaseModel]) -> dict[str, Any]:
    """The arguments as the plain JSON Schema that every provider accepts: nested models inlined, no titles, no unions."""
    schema = args.model_json_schema()
    plain = _simplify(schema, schema.get("$defs", {}), inside=(args.__name__,))
    plain.pop("description", None)  # the class's docstring is for readers of the code
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
