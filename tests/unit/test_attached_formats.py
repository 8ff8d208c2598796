"""Images and files of a message in each provider's own format."""

from agents.messages import AttachedFile, Image, UserMessage
from agents.providers.base import ModelRequest
from agents.providers.chat_format import wire_messages
from agents.providers.demo_script import next_turn
from agents.providers.dialect import Dialect, learn
from agents.providers.prices import takes_images
from agents.providers.responses_format import responses_body_of

IMAGE = Image("cat.png", "image/png", b"\x89PNG")
URL = "data:image/png;base64,iVBORw=="
FILE = AttachedFile("a.txt", "[Attached file a.txt]\n```\nhi\n```")


def request(*messages: UserMessage) -> ModelRequest:
    return ModelRequest(model="m", messages=messages)


def test_an_image_goes_out_as_a_data_address() -> None:
    (message,) = wire_messages(request(UserMessage("what is this?", (IMAGE,))), Dialect())
    assert message["content"] == [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": URL}}]
    (alone,) = wire_messages(request(UserMessage("", (IMAGE,))), Dialect())
    assert [part["type"] for part in alone["content"]] == ["image_url"]


def test_the_responses_format_has_names_of_its_own() -> None:
    body = responses_body_of(request(UserMessage("look", (IMAGE,), (FILE,))), Dialect())
    words = f"look\n\n{FILE.told}"
    assert body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": words}, {"type": "input_image", "image_url": URL}]}
    ]


def test_a_file_is_told_behind_the_persons_own_words() -> None:
    (message,) = wire_messages(request(UserMessage("read it", files=(FILE,))), Dialect())
    assert message["content"] == f"read it\n\n{FILE.told}"
    assert wire_messages(request(UserMessage("plain")), Dialect())[0]["content"] == "plain"


def test_a_model_that_refuses_images_is_told_about_them_instead() -> None:
    learned = learn(Dialect(), '{"error": {"message": "Invalid content type. image_url is only supported by certain models."}}')
    assert learned == Dialect(images=False)
    for message in (
        wire_messages(request(UserMessage("look", (IMAGE,))), learned)[0],
        responses_body_of(request(UserMessage("look", (IMAGE,))), learned)["input"][0],
    ):
        assert message["content"] == 'look\n\n[Attached image "cat.png" (image/png); not shown: this model takes no images]'
    assert learn(Dialect(), "You uploaded an unsupported image. Please make sure your image is valid.") is None


def test_which_models_look_at_images_is_known_or_tried() -> None:
    assert takes_images("openai/gpt-4o")
    assert not takes_images("openai/gpt-3.5-turbo")
    assert takes_images("ollama/nobody-knows-this")
    assert takes_images("demo/clawsite")


def test_the_demo_says_what_it_got() -> None:
    turn = next_turn([UserMessage("", (IMAGE,), (FILE,))], ["read"])
    assert "`cat.png`, `a.txt`" in turn.text
    assert "`cat.png`" in next_turn([UserMessage("这是什么？", (IMAGE,))], []).text
    assert next_turn([UserMessage("read a.txt", files=(FILE,))], ["read"]).tool == "read"
    assert "cat.png" not in next_turn([UserMessage("", (IMAGE,)), UserMessage("hello")], []).text
