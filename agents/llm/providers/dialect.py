"""What one endpoint does not understand, learned from its refusals. Pure.

"OpenAI-compatible" has dialects: Mistral refuses `stream_options` and call ids that are not nine letters or digits, DeepSeek
wants the thinking behind a tool call sent back, OpenAI's newer models take tools only on /responses, many models take no
images. A table of hosts would be wrong next month and never knows self-hosted servers, so the refusal itself is read: the
request is changed and sent again, and the endpoint is remembered for as long as the process lives.
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
    responses: bool = False  # is to be asked on /responses instead of /chat/completions
    usage_on_request: bool = True  # understands stream_options
    effort: bool = True  # understands reasoning_effort
    thinking_back: bool = False  # wants reasoning_content in earlier answers
    short_call_ids: bool = False
    images: bool = True
    completion_limit: bool = False  # calls max_tokens max_completion_tokens


def learn_from_error(dialect: EndpointDialect, words: str) -> EndpointDialect | None:
    """The dialect that avoids this refusal, or None when there is nothing left to change."""
    words = words.lower()
    learned = dialect
    if "v1/responses" in words:
        learned = replace(dialect, responses=True)
    elif "max_completion_tokens" in words and "max_tokens" in words:
        learned = replace(dialect, completion_limit=True)
    elif "tool call id" in words and "length of 9" in words:
        learned = replace(dialect, short_call_ids=True)
    elif "reasoning_content" in words:
        learned = replace(dialect, thinking_back=True)
    elif "stream_options" in words:
        learned = replace(dialect, usage_on_request=False)
    elif any(refusal in words for refusal in NO_IMAGES_PHRASES):
        learned = replace(dialect, images=False)
    elif "reasoning_effort" in words or "reasoning.effort" in words:
        learned = replace(dialect, effort=False)
    return learned if learned != dialect else None


def to_endpoint_call_id(dialect: EndpointDialect, call_id: str) -> str:
    """The id of a tool call as this endpoint takes it; the same id always becomes the same."""
    if not dialect.short_call_ids or NINE_CHARACTER_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]
