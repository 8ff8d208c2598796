"""Images and files of a message in each provider's own format."""

from agents.context.image_limit import MAX_IMAGES, limit_images
from agents.llm.base import ModelRequest
from agents.llm.messages import AssistantMessage, AttachedFile, Image, Message, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.prices import takes_images
from agents.llm.providers.chat_format import to_wire_messages
from agents.llm.providers.demo.script import next_reply
from agents.llm.providers.dialect import EndpointDialect, learn_from_error
from agents.llm.providers.responses_format import build_responses_body

IMAGE = Image("cat.png", "image/png", b"\x89PNG")
URL = "data:image/png;base64,iVBORw=="
FILE = AttachedFile("a.txt", "[Attached file a.txt]\n```\nhi\n```")


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(model="m", messages=messages)


def test_image_is_sent_as_data_url() -> None:
    (message,) = to_wire_messages(request(UserMessage("what is this?", (IMAGE,))), EndpointDialect())
    assert message["content"] == [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": URL}}]
    (alone,) = to_wire_messages(request(UserMessage("", (IMAGE,))), EndpointDialect())
    assert [part["type"] for part in alone["content"]] == ["image_url"]


def test_responses_format_uses_its_own_part_types() -> None:
    body = build_responses_body(request(UserMessage("look", (IMAGE,), (FILE,))), EndpointDialect())
    words = f"look\n\n{FILE.description}"
    assert body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": words}, {"type": "input_image", "image_url": URL}]}
    ]


def test_file_description_follows_the_user_text() -> None:
    (message,) = to_wire_messages(request(UserMessage("read it", files=(FILE,))), EndpointDialect())
    assert message["content"] == f"read it\n\n{FILE.description}"
    assert to_wire_messages(request(UserMessage("plain")), EndpointDialect())[0]["content"] == "plain"


def test_text_only_model_gets_image_description() -> None:
    learned = learn_from_error(
        EndpointDialect(), '{"error": {"message": "Invalid content type. image_url is only supported by certain models."}}'
    )
    assert learned == EndpointDialect(images=False)
    for message in (
        to_wire_messages(request(UserMessage("look", (IMAGE,))), learned)[0],
        build_responses_body(request(UserMessage("look", (IMAGE,))), learned)["input"][0],
    ):
        assert message["content"] == 'look\n\n[Attached image "cat.png" (image/png); not shown: this model takes no images]'
    assert learn_from_error(EndpointDialect(), "You uploaded an unsupported image. Please make sure your image is valid.") is None


def test_unknown_models_are_assumed_to_accept_images() -> None:
    assert takes_images("openai/gpt-4o")
    assert not takes_images("openai/gpt-3.5-turbo")
    assert takes_images("ollama/nobody-knows-this")
    assert takes_images("demo/clawsite")


def test_demo_reply_lists_its_attachments() -> None:
    turn = next_reply([UserMessage("", (IMAGE,), (FILE,))], ["read"])
    assert "`cat.png`, `a.txt`" in turn.text
    assert "`cat.png`" in next_reply([UserMessage("这是什么？", (IMAGE,))], []).text
    assert next_reply([UserMessage("read a.txt", files=(FILE,))], ["read"]).tool == "read"
    assert "cat.png" not in next_reply([UserMessage("", (IMAGE,)), UserMessage("hello")], []).text


SHOWN = ToolResultMessage("c1", "image", "cat.png: 1 x 1", images=(IMAGE,))
TURN = (
    UserMessage("look"),
    AssistantMessage(tool_calls=(ToolCallRequest("c1", "image"), ToolCallRequest("c2", "read"))),
    SHOWN,
    ToolResultMessage("c2", "read", "text"),
)
NAMED = '[Not written by the user: images that tools returned, in this order: "cat.png" of image]'


def test_tool_images_follow_all_results_of_their_turn() -> None:
    wire = to_wire_messages(request(*TURN, AssistantMessage("a cat")), EndpointDialect())
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert wire[2]["content"] == "cat.png: 1 x 1"
    assert wire[4]["content"] == [{"type": "text", "text": NAMED}, {"type": "image_url", "image_url": {"url": URL}}]
    items = build_responses_body(request(*TURN), EndpointDialect())["input"]
    assert [item.get("type") or item["role"] for item in items][-3:] == ["function_call_output", "function_call_output", "user"]
    assert items[-1]["content"] == [{"type": "input_text", "text": NAMED}, {"type": "input_image", "image_url": URL}]


def test_text_only_model_gets_tool_image_description() -> None:
    last = to_wire_messages(request(*TURN), EndpointDialect(images=False))[-1]
    assert last["content"] == f'{NAMED}\n\n[Attached image "cat.png" (image/png); not shown: this model takes no images]'


def test_text_only_model_gets_note_in_tool_result() -> None:
    blind = limit_images(TURN, takes_images=False)
    assert blind[2] == ToolResultMessage(
        "c1", "image", 'cat.png: 1 x 1\n\n[Image "cat.png" (image/png); not shown: this model takes no images]'
    )
    assert (blind[0], blind[1], blind[3]) == (TURN[0], TURN[1], TURN[3])


def test_only_newest_images_are_kept() -> None:
    messages = [UserMessage("first", (IMAGE,)), *[SHOWN] * MAX_IMAGES]
    kept = limit_images(messages, takes_images=True)
    assert kept[1:] == messages[1:]
    assert kept[0] == UserMessage('first\n\n[Image "cat.png" (image/png); not shown: too many newer images]')
    large = Image("large.png", "image/png", b"x" * (15 << 20))
    older, newer = limit_images([UserMessage("a", (large,)), UserMessage("b", (large,))], takes_images=True)
    assert (older.images, newer.images) == ((), (large,))
