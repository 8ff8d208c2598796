"""What a request asks for, whichever of the two formats it came in; and the parts both have in common: tools, sampling."""

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

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TOOLS = 128
MAX_DESCRIPTION_LENGTH = 8_192
MAX_SCHEMA_BYTES = 32_768  # bytes of one tool's parameters, as JSON
MAX_TOTAL_SCHEMA_BYTES = 262_144  # of all together: they are stored with the run, and sent with every model call
THINKING_LEVELS = {"none": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
NO_PARAMETERS = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """`results` are {callId, text} of the caller's own tools; a request has these or words, not both."""

    model: str
    text: str = ""
    files: tuple[InlineFile, ...] = ()
    results: tuple[dict[str, Any], ...] = ()
    past: tuple[SuppliedMessage, ...] = ()
    system: str = ""
    tools: tuple[dict[str, Any], ...] = ()
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
    """Fields that both formats have. What is not declared is ignored, as OpenAI's servers add fields every month."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = Field("clawsite", max_length=200)
    stream: bool | None = None
    user: str | None = Field(None, max_length=256)
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    def wish(self, spoken: InputMessages, parameters: dict[str, Any], **own: Any) -> CompletionRequest:
        """What both formats say alike; `parameters` and `own` are what each calls by names of its own."""
        words, results, past = spoken.asked()
        alike = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "parallel_tool_calls": self.parallel_tool_calls,
            "tool_choice": self.forced_tool(),
        }
        return CompletionRequest(
            model=self.model,
            text=words.text,
            files=words.files,
            results=results,
            past=past,
            system=spoken.system(),
            tools=self.client_tools(),
            parameters={name: value for name, value in {**parameters, **alike}.items() if value is not None},
            user=self.user or "",
            stream=bool(self.stream),
            **own,
        )

    def client_tools(self) -> tuple[dict[str, Any], ...]:
        return () if self.tool_choice == "none" else parse_tools(self.tools or ())

    def forced_tool(self) -> Any:
        """`required` or one tool; None leaves it to the model."""
        match self.tool_choice:
            case "required":
                if not self.tools:
                    raise RequestRejected(
                        "tool_choice: there are no tools to choose from", param="tool_choice", code="invalid_value"
                    )
                return "required"
            case dict() as named:
                function = named.get("function") or named  # chat completions wrap the name, responses do not
                name = function.get("name") if named.get("type") == "function" and isinstance(function, dict) else None
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


def parse_tools(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """As {name, description, parameters}. Chat completions wrap them in `function`, responses do not; both are taken."""
    if len(tools) > MAX_TOOLS:
        raise RequestRejected(f"tools: {len(tools)} tools; at most {MAX_TOOLS} are taken", param="tools", code="too_many_tools")
    read: dict[str, dict[str, Any]] = {}
    size = 0
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        if tool.get("type") != "function":
            raise RequestRejected(f"{where}.type: only functions are taken", param=f"{where}.type", code="unsupported_tool")
        function = tool["function"] if isinstance(tool.get("function"), dict) else tool
        spec = _parse_tool(function, where)
        if spec["name"] in read:
            raise RequestRejected(f"{where}: there is another tool {spec['name']!r}", param=where, code="duplicate_tool")
        read[spec["name"]] = spec
        size += len(orjson.dumps(spec["parameters"]))
    if size > MAX_TOTAL_SCHEMA_BYTES:
        raise RequestRejected(
            f"tools: all schemas together have {size} bytes; at most {MAX_TOTAL_SCHEMA_BYTES} are taken", param="tools"
        )
    return tuple(read.values())


def _parse_tool(function: dict[str, Any], where: str) -> dict[str, Any]:
    name, description, parameters = function.get("name"), function.get("description") or "", function.get("parameters")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise RequestRejected(f"{where}.name: 1 to 64 letters, digits, - and _", param=f"{where}.name", code="invalid_value")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION_LENGTH:
        raise RequestRejected(f"{where}.description: at most {MAX_DESCRIPTION_LENGTH} characters", param=f"{where}.description")
    if parameters is None or parameters == {}:
        parameters = NO_PARAMETERS
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise RequestRejected(
            f"{where}.parameters: write a JSON Schema of type object", param=f"{where}.parameters", code="invalid_schema"
        )
    if len(orjson.dumps(parameters)) > MAX_SCHEMA_BYTES:
        raise RequestRejected(
            f"{where}.parameters: more than {MAX_SCHEMA_BYTES} bytes",
            param=f"{where}.parameters",
            code="invalid_schema",
        )
    return {"name": name, "description": description, "parameters": parameters}
