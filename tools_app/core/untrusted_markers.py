"""Find the markers around untrusted text (`tools_app.core.untrusted_text`) and leave that text out. Pure."""

import re

MARKER_LENGTH = 16
REPLACEMENT = "[content from outside]"
# One that was cut, and so has lost its end, goes as far as the text does.
ENVELOPE_PATTERN = re.compile(
    rf"Content from [^\n]{{1,400}}? stands between the two lines marked (?P<mark>[0-9a-f]{{{MARKER_LENGTH}}})\.[^\n]*\n"
    r"<<<outside (?P=mark)>>>(?:.*?<<<end of outside (?P=mark)>>>|.*)",
    re.DOTALL,
)


def remove_untrusted_text(text: str) -> str:
    """The text without what stands in envelopes: for a place that shows a beginning only, and would tear them open."""
    return ENVELOPE_PATTERN.sub(REPLACEMENT, text)
