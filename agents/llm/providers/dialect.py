"""Learn from an endpoint's errors which features it does not support. Pure.

"OpenAI-compatible" has dialects: Mistral rejects `stream_options` and call IDs that are not nine letters or digits, DeepSeek
wants the thinking of a tool call sent back, OpenAI's newer models accept tools only on /responses, many models accept no
images. A table of hosts would soon be outdated and never cover self-hosted servers, so the error itself is read: the request is
changed and sent again, and the result is remembered per endpoint until the process ends.
"""

import hashlib
import re
from dataclasses import dataclass, replace

# OpenAI, DeepSeek, llama.cpp, Ollama, vLLM, OpenRouter
NO_IMAGES_PHRASES = (
    "image_url is only supported",
    "unknown variant `image_url`",
    "image input is not supported",
    "required for image input",
    "not a multimodal model",
    "support image input",
    "does not support images",
)
NINE_CHARACTER_ID = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(frozen=True, slots=True)
class EndpointDialect:
    responses: bool = False  # use /responses instead of /chat/completions
    usage_on_request: bool = True  # understands stream_options
    effort: bool = True  # understands reasoning_effort
    thinking_back: bool = False  # wants reasoning_content in earlier answers
    short_call_ids: bool = False
    images: bool = True
    completion_limit: bool = False  # uses the name max_completion_tokens for max_tokens


def learn_from_error(dialect: EndpointDialect, text: str) -> EndpointDialect | None:
    """Return the dialect that avoids this error, or None if there is nothing left to change."""
    text = text.lower()
    learned = dialect
    if "v1/responses" in text:
        learned = replace(dialect, responses=True)
    elif "max_completion_tokens" in text and "max_tokens" in text:
        learned = replace(dialect, completion_limit=True)
    elif "tool call id" in text and "length of 9" in text:
        learned = replace(dialect, short_call_ids=True)
    elif "reasoning_content" in text:
        learned = replace(dialect, thinking_back=True)
    elif "stream_options" in text:
        learned = replace(dialect, usage_on_request=False)
    elif any(refusal in text for refusal in NO_IMAGES_PHRASES):
        learned = replace(dialect, images=False)
    elif "reasoning_effort" in text or "reasoning.effort" in text:
        learned = replace(dialect, effort=False)
    return learned if learned != dialect else None


def to_endpoint_call_id(dialect: EndpointDialect, call_id: str) -> str:
    """Convert a call ID to one this endpoint accepts; always the same for the same ID."""
    if not dialect.short_call_ids or NINE_CHARACTER_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]
