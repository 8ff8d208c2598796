"""Format pydantic's validation errors for clients."""

from pydantic import ValidationError


def describe_first_error(error: ValidationError) -> str:
    """Describe the first error: location and message."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = "/".join(str(part) for part in first["loc"])
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"at /{where}: {message}" if where else message


def describe_errors(error: ValidationError) -> list[dict[str, str]]:
    """List the errors for `details`. Input is left out because it may contain a secret."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"path": "/" + "/".join(str(part) for part in each["loc"]), "message": each["msg"]} for each in errors[:20]]
