"""Find the markers around untrusted text (`tools_app.core.untrusted_text`) and remove that text. Pure."""

import re

MARKER_LENGTH = 16
REPLACEMENT = "[content from outside]"
# If the end marker was truncated, the match extends to the end of the text.
ENVELOPE_PATTERN = re.compile(
    rf"Content from [^\n]{{1,400}}? stands between the two lines marked (?P<mark>[0-9a-f]{{{MARKER_LENGTH}}})\.[^\n]*\n"
    r"<<<outside (?P=mark)>>>(?:.*?<<<end of outside (?P=mark)>>>|.*)",
    re.DOTALL,
)


def remove_untrusted_text(text: str) -> str:
    """Replace wrapped text with a placeholder, for previews that would truncate it and lose the end marker."""
    return ENVELOPE_PATTERN.sub(REPLACEMENT, text)
