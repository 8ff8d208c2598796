"""A caller's own tools: never a permit, never the name of a gateway tool. And the caller's model parameters."""

from agents.llm.base import ModelRequest, ToolSpec
from agents.llm.messages import UserMessage
from agents.llm.providers.chat_format import build_chat_body
from agents.llm.providers.dialect import EndpointDialect, learn_from_error
from agents.llm.providers.responses_format import build_responses_body
from tools_app.authorize import authorize_tool_call
from tools_app.core.definition import CallRef
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules
from tools_app.toolset import Toolset

RULES = PolicyRules(1)
QUERY = PolicyQuery("main", tools=(ToolFacts("exec", ("runtime",)),), provider="openai")


def spec(name):
    return {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}}


def toolset(*names):
    return Toolset({}, QUERY, evaluate(QUERY, RULES)).with_client_tools([spec(name) for name in names])


def test_caller_tool_call_is_handed_over_without_permit():
    made = authorize_tool_call(CallRef("c", "weather", {}), toolset=toolset("weather"), rules=RULES)
    assert (made.effect, made.permit, made.verdict["caller"]) == ("hand_over", None, "weather")


def test_builtin_tool_shadows_caller_tool_of_same_name():
    tools = toolset("exec", "weather")
    assert [each["name"] for each in tools.specs()] == ["weather"]
    made = authorize_tool_call(CallRef("c", "exec", {}), toolset=tools, rules=RULES)
    assert (made.effect, made.layer, made.permit) == ("deny", "profile", None)


CHOICE = {"type": "function", "function": {"name": "weather"}}
WISHES = {"max_tokens": 9, "temperature": 0.5, "stop": ["x"], "tool_choice": CHOICE, "response_format": {"type": "json_object"}}


def request(*tools):
    return ModelRequest("m", (UserMessage("hi"),), tools=tools, parameters=WISHES)


def test_request_options_are_mapped_to_both_formats():
    weather = ToolSpec("weather", "", {"type": "object"})
    chat = build_chat_body(request(weather), EndpointDialect())
    assert {name: chat[name] for name in WISHES} == WISHES
    other = build_responses_body(request(weather), EndpointDialect())
    assert (other["max_output_tokens"], other["temperature"]) == (9, 0.5)
    assert (other["tool_choice"], other["text"]) == ({"type": "function", "name": "weather"}, {"format": {"type": "json_object"}})
    assert "stop" not in other
    assert "tool_choice" not in build_chat_body(request(), EndpointDialect())


def test_token_limit_parameter_is_learned_from_error():
    refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    learned = learn_from_error(EndpointDialect(), refusal)
    body = build_chat_body(request(), learned)
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body
