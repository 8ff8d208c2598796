"""What the model sees of a tool, and what a declaration must include."""

import json
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from clawsite.infra.reasons import LEGACY, Reason
from tools_app.core.arguments import json_schema
from tools_app.core.definition import ImageBlock, TextBlock, ToolArgs, ToolEnv, ToolResult, ToolUnavailable, text_result, tool

ENV = ToolEnv(None, "main", 1, "s", "agent:main:main")


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Place(BaseModel):
    title: str = Field(description="What it is called")


class PaintArgs(ToolArgs):
    """A description for readers of the code."""

    colour: Literal["red", "blue"] = Field("red", description="Which colour")
    size: Size = Size.SMALL
    place: Place
    tags: list[Place] = Field(default_factory=list)


def test_schema_has_no_references_or_unions():
    schema = json_schema(PaintArgs)
    text = json.dumps(schema)
    assert not any(word in text for word in ("$ref", "$defs", "anyOf", "Words for readers"))
    assert schema["type"] == "object"
    assert schema["required"] == ["place"]
    assert schema["properties"]["colour"] == {
        "default": "red",
        "description": "Which colour",
        "enum": ["red", "blue"],
        "type": "string",
    }
    assert schema["properties"]["size"]["enum"] == ["small", "large"]


def test_argument_named_title_is_kept():
    place = json_schema(PaintArgs)["properties"]["place"]
    assert place["properties"]["title"] == {"type": "string", "description": "What it is called"}
    assert json_schema(PaintArgs)["properties"]["tags"]["items"] == place


def test_tool_without_arguments_has_empty_object_schema():
    class Nothing(ToolArgs):
        pass

    assert json_schema(Nothing) == {"type": "object", "properties": {}, "additionalProperties": False}


class Optionally(ToolArgs):
    path: str | None = None


class Tree(ToolArgs):
    children: list["Tree"] = Field(default_factory=list)


@pytest.mark.parametrize(("args", "words"), [(Optionally, "anyOf"), (Tree, "contains itself")])
def test_unsupported_argument_types_are_rejected_at_declaration(args, words):
    with pytest.raises(TypeError, match=words):
        json_schema(args)


@pytest.mark.parametrize("name", ["", "Read", "9lives", "a-b", "a" * 65])
def test_tool_name_invalid_for_providers_is_rejected(name):
    def make(env):
        """Do something."""

    with pytest.raises(TypeError, match="tool name"):
        tool(name, args=PaintArgs)(make)


def test_tool_without_docstring_is_rejected():
    with pytest.raises(TypeError, match="docstring"):
        tool("paint", args=PaintArgs)(lambda env: None)


def test_plugin_factory_can_give_plain_text_as_reason():
    @tool("paint", args=PaintArgs)
    def make_paint(env):
        """Paint something."""
        raise ToolUnavailable("there is no paint")

    with pytest.raises(ToolUnavailable, match="there is no paint") as unavailable:
        make_paint.create(ENV)
    assert unavailable.value.reason == Reason(LEGACY, text="there is no paint")


def test_factory_returning_no_tool_is_unavailable():
    @tool("paint", args=PaintArgs)
    def make_paint(env):
        """Paint something."""

    with pytest.raises(ToolUnavailable) as unavailable:
        make_paint.create(ENV)
    assert unavailable.value.reason == Reason("tool.factory_without_function")


def test_failing_factory_is_logged_and_omits_its_tool(caplog):
    @tool("paint", args=PaintArgs)
    def make_paint(env):
        """Paint something."""
        raise ValueError("no brush")

    for _ in range(2):
        with pytest.raises(ToolUnavailable) as unavailable:
            make_paint.create(ENV)
        assert unavailable.value.reason == Reason("tool.factory_failed", error="ValueError")
    assert caplog.text.count("factory of tool paint failed (ValueError); the tool is unavailable") == 1


def test_result_has_text_and_json_form():
    result = ToolResult((TextBlock("one"), ImageBlock("aGk=", "image/png"), TextBlock("two")), {"n": 2})
    assert result.text == "one\ntwo"
    assert result.to_json() == {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "text", "text": "two"},
        ],
        "details": {"n": 2},
    }
    assert text_result("no", is_error=True).is_error
