"""A completion request in a common form for both OpenAI formats, and the fields they share: tools, sampling."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from clawsite.api.openai.errors import RequestRejected
from clawsite.api.openai.input_messages import InputMessages
from clawsite.routing.attachments import InlineFile
from clawsite.routing.supplied_history import SuppliedMessage
from sessions_app.run_request import ClientTool, ClientToolResult

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TOOLS = 128
MAX_DESCRIPTION_LENGTH = 8_192
MAX_SCHEMA_BYTES = 32_768  # one tool's parameters as JSON
MAX_TOTAL_SCHEMA_BYTES = 262_144  # all tools: they are stored with the run and sent with every model call
THINKING_LEVELS = {"none": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
NO_PARAMETERS = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """`results` are those of the caller's own tools. A request has either results or text."""

    model: str
    text: str = ""
    files: tuple[InlineFile, ...] = ()
    results: tuple[ClientToolResult, ...] = ()
    past: tuple[SuppliedMessage, ...] = ()
    system: str = ""
    tools: tuple[ClientTool, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    thinking: str = ""
    user: str = ""
    stream: bool = False
    include_usage: bool = False
    previous: str = ""  # id of an earlier response


Probability = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]


class CompletionBody(BaseModel):
    """Fields of both formats. Unknown fields are ignored, because OpenAI adds fields often."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = Field("clawsite", max_length=200)
    stream: bool | None = None
    user: str | None = Field(None, max_length=256)
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    def to_request(self, messages: InputMessages, parameters: dict[str, Any], **specific: Any) -> CompletionRequest:
        """Build the request. `parameters` and `specific` are the fields whose names differ between the formats."""
        content, results, past = messages.split()
        common = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "parallel_tool_calls": self.parallel_tool_calls,
            "tool_choice": self.forced_tool(),
        }
        return CompletionRequest(
            model=self.model,
            text=content.text,
            files=content.files,
            results=results,
            past=past,
            system=messages.system_prompt(),
            tools=self.client_tools(),
            parameters={name: value for name, value in {**parameters, **common}.items() if value is not None},
            user=self.user or "",
            stream=bool(self.stream),
            **specific,
        )

    def client_tools(self) -> tuple[ClientTool, ...]:
        return () if self.tool_choice == "none" else parse_tools(self.tools or ())

    def forced_tool(self) -> Any:
        """Return `required` or one tool; None lets the model choose."""
        match self.tool_choice:
            case "required":
                if not self.tools:
                    raise RequestRejected(
                        "tool_choice: there are no tools to choose from", param="tool_choice", code="invalid_value"
                    )
                return "required"
            case dict() as choice:
                function = choice.get("function") or choice  # chat completions wrap the name, responses do not
                name = function.get("name") if choice.get("type") == "function" and isinstance(function, dict) else None
                if not isinstance(name, str) or name not in {tool["name"] for tool in parse_tools(self.tools or ())}:
                    raise RequestRejected("tool_choice: name one of your tools", param="tool_choice", code="invalid_value")
                return {"type": "function", "function": {"name": name}}
        return None


def parse_thinking(effort: Any, where: str) -> str:
    if effort is None:
        return ""
    if not isinstance(effort, str) or effort not in THINKING_LEVELS:
        raise RequestRejected(f"{where}: choose one of {', '.join(THINKING_LEVELS)}", param=where, code="invalid_value")
    return THINKING_LEVELS[effort]


def parse_tools(tools: Sequence[dict[str, Any]]) -> tuple[ClientTool, ...]:
    """Return the tools. Chat completions wrap them in `function`, responses do not."""
    if len(tools) > MAX_TOOLS:
        raise RequestRejected(f"tools: {len(tools)} tools exceed the limit of {MAX_TOOLS}", param="tools", code="too_many_tools")
    specs: dict[str, ClientTool] = {}
    size = 0
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        if tool.get("type") != "function":
            raise RequestRejected(f"{where}.type: must be function", param=f"{where}.type", code="unsupported_tool")
        function = tool["function"] if isinstance(tool.get("function"), dict) else tool
        spec = _parse_tool(function, where)
        if spec["name"] in specs:
            raise RequestRejected(f"{where}: duplicate tool {spec['name']!r}", param=where, code="duplicate_tool")
        specs[spec["name"]] = spec
        size += len(orjson.dumps(spec["parameters"]))
    if size > MAX_TOTAL_SCHEMA_BYTES:
        raise RequestRejected(
            f"tools: the schemas have {size} bytes in total, which exceeds the limit of {MAX_TOTAL_SCHEMA_BYTES}", param="tools"
        )
    return tuple(specs.values())


def _parse_tool(function: dict[str, Any], where: str) -> ClientTool:
    name, description, parameters = function.get("name"), function.get("description") or "", function.get("parameters")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise RequestRejected(
            f"{where}.name: must have 1 to 64 letters, digits, - and _", param=f"{where}.name", code="invalid_value"
        )
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION_LENGTH:
        raise RequestRejected(
            f"{where}.description: must be text of at most {MAX_DESCRIPTION_LENGTH} characters", param=f"{where}.description"
        )
    if parameters is None or parameters == {}:
        parameters = NO_PARAMETERS
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise RequestRejected(
            f"{where}.parameters: must be a JSON Schema of type object", param=f"{where}.parameters", code="invalid_schema"
        )
    if len(orjson.dumps(parameters)) > MAX_SCHEMA_BYTES:
        raise RequestRejected(
            f"{where}.parameters: exceeds the limit of {MAX_SCHEMA_BYTES} bytes",
            param=f"{where}.parameters",
            code="invalid_schema",
        )
    return {"name": name, "description": description, "parameters": parameters}
