"""Validate a model's arguments against a cleaned input schema, with errors the model can act on. No Django."""

from functools import cache
from typing import TYPE_CHECKING, Any

from tools_app.core.arguments import BadArguments, Check

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_ERRORS = 6
MAX_ERROR_LENGTH = 200


def make_schema_check(schema: dict[str, Any]) -> Check:
    """Return the check of a tool. jsonschema takes 0.3 s to import, so it is loaded on the first call."""

    @cache
    def validator() -> "Validator":
        from jsonschema import Draft202012Validator

        return Draft202012Validator(schema)  # cleaned: it contains no references

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        faults: list[tuple[str, str]] = []
        missing: dict[str, None] = {}
        for error in validator().iter_errors(arguments):
            if error.validator == "required" and not error.absolute_path:
                missing |= dict.fromkeys(name for name in error.validator_value if name not in arguments)
            else:
                faults.append((".".join(map(str, error.absolute_path)), error.message[:MAX_ERROR_LENGTH]))
            if len(faults) == MAX_ERRORS:
                break
        if faults or missing:
            raise BadArguments(faults, list(missing))
        return arguments

    return check
