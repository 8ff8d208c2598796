"""What a server says about itself is data from outside: made visible, and cut to a length. Pure."""

from tools_app.cleaning import clean
from tools_app.hidden_letters import visible

CUT = " […]"


def plain(text: str, limit: int) -> str:
    """The text without characters that a person would not see but a model would read, at most `limit` long."""
    kept = visible(clean(text[: 4 * limit]))[0].strip()  # the rest of a megabyte is not even looked at
    return kept if len(kept) <= limit else kept[: limit - len(CUT)].rstrip() + CUT
