"""The demo model's answers: phrases it recognizes, the tool each one needs, and how results are described. Pure.

English and Simplified Chinese. It sees only the conversation and the names of the tools offered, like any model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.llm.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agents.llm.providers.demo.phrases import DemoPhrases, choose_phrases
from tools_app.core.untrusted_markers import remove_untrusted_text

# Suffixes have only Latin letters and digits: in "notes.txt里的" the name ends where the Chinese begins.
PATH_PATTERN = r"[\"'`“「]?(?P<path>[\w./-]*\w\.[A-Za-z0-9]{1,8})[\"'`”」]?"
FILE_PATTERN = rf"(?:a\s+|the\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+)?{PATH_PATTERN}"
QUOTES = "\"'`“”‘’「」"
MAX_REQUEST_LENGTH = 1000  # characters examined
MAX_LINES = 60
MAX_CHARACTERS = 4000
REGEX_CHARACTERS = re.compile(r"([.^$*+?{}\[\]\\|()])")
MAX_COUNT = 100  # takes about 50 s
COUNTING_PACE = 33  # times slower than text: two numbers per second leave time to press Stop
LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "md": "markdown", "sh": "bash", "yml": "yaml"}


@dataclass(frozen=True, slots=True)
class DemoReply:
    thinking: str
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    pace: int = 1  # how many times slower than usual the text is streamed


# The first match wins, so more specific phrases come first.
PHRASES = (
    # Only at the start of the message: the rest of the line is the command, verbatim.
    ("exec", r"^\s*(?:please\s+)?(?:run|execute)\s+(?:the\s+)?(?:command\s*:?\s+)?(?P<command>\S.*)$"),
    ("exec", r"^\s*请?(?:帮我)?(?:运行|执行)(?:一下)?(?:命令)?\s*[:：]?\s*(?P<command>\S.*)$"),
    ("edit", rf"\b(?:replace|change)\s+(?P<old>.+?)\s+(?:with|to|by)\s+(?P<new>.+?)\s+in\s+{FILE_PATTERN}"),
    ("edit", rf"\bedit\s+{FILE_PATTERN}[\s,:;]+(?:and\s+)?(?:replace|change)\s+(?P<old>.+?)\s+(?:with|to|by)\s+(?P<new>.+)"),
    ("edit", rf"[把将]\s*{PATH_PATTERN}\s*(?:文件)?(?:里面|里|中)?的?\s*(?P<old>.+?)\s*(?:替换|改|换)(?:成|为)\s*(?P<new>.+)"),
    ("write", rf"\b(?:write|save|put)\s+(?P<content>.+?)\s+(?:to|into|in|as)\s+{FILE_PATTERN}\s*[.!]?$"),
    (
        "write",
        rf"\b(?:write|create|make|save)\s+{FILE_PATTERN}"
        r"(?:\s*[:,]?\s*(?:saying|which says|with(?: the)?(?: text| content)?|containing|:)\s*(?P<content>.+))?",
    ),
    ("write", rf"[把将]\s*(?P<content>.+?)\s*(?:写到|写入|写进|保存到)\s*{PATH_PATTERN}"),
    (
        "write",
        rf"(?:写入?|创建|新建|建立)\s*(?:一个)?\s*(?:文件)?\s*{PATH_PATTERN}"
        r"\s*[,，:：]?\s*(?:内容)?(?:是|为|写|说)?\s*[:：]?\s*(?P<content>.*)",
    ),
    ("grep", r"\b(?:search\s+(?:(?:my\s+|the\s+)?(?:files|workspace)\s+)?for|search|look\s+for|grep(?:\s+for)?)\s+(?P<pattern>.+)"),
    ("grep", r"(?:搜索|查找|搜一下|搜)\s*(?:一下)?\s*(?P<pattern>.+)"),
    ("read", rf"\b(?:read|show|open|cat|print|display|view)\s+(?:me\s+)?(?:the\s+)?(?:contents?\s+of\s+)?{FILE_PATTERN}"),
    ("read", rf"\bwhat(?:'s| is) in\s+{FILE_PATTERN}"),
    ("read", rf"(?:读取|读一下|读|打开|查看|显示|看看|看一下)\s*(?:文件)?\s*{PATH_PATTERN}"),
    ("glob", r"\b(?:list|show|see|what|which)\b.*\b(?:files|workspace|folder|directory)\b|^\s*(?:ls|dir)\b"),
    ("glob", r"(?:列出|有哪些|有什么|看看|显示|查看).*(?:文件|工作区|目录)|(?:文件|目录).*(?:有哪些|有什么|列表)"),
    ("count", r"\bcount\s+(?:slowly\s+)?(?:from\s+(?:1|one)\s+)?(?:up\s+)?to\s+(?P<to>\d{1,9})\b"),
    ("count", r"数到\s*(?P<to>\d{1,9})"),
    ("session_status", r"\bstatus\b|状态"),
)
COMPILED_PHRASES = tuple((tool, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for tool, pattern in PHRASES)


def next_reply(messages: Sequence[Message], tools: Sequence[str]) -> DemoReply:
    """Answer the last user message: with a tool call first if it asks for one, then with what the tool found."""
    asked, brought = "", ""
    results: list[ToolResultMessage] = []
    arguments: dict[str, dict[str, Any]] = {}
    for message in messages:
        match message:
            case UserMessage(text, images, files):
                asked, results = text, []
                names = [image.name for image in images] + [file.name for file in files]
                brought = ", ".join(f"`{name}`" for name in names)
            case AssistantMessage(tool_calls=calls):
                arguments |= {call.id: call.arguments for call in calls}
            case ToolResultMessage():
                results.append(message)
    words = choose_phrases(asked)
    if results:
        told = "\n\n".join(_describe_result(result, arguments.get(result.call_id, {}), words) for result in results)
        return DemoReply(words.thought_result.format(tool=results[-1].name), told)
    tool, wanted = parse_request(
        remove_untrusted_text(asked)
    )  # text in an envelope is data, not instructions, even for the demo model
    if brought and not tool:
        return DemoReply(words.thought_attached, words.attached.format(names=brought))
    if not tool:
        return DemoReply(words.thought_plain, words.introduction)
    if tool == "count":  # the only request that needs no tool
        return DemoReply(words.thought_count, " ".join(str(number) for number in range(1, wanted["to"] + 1)), pace=COUNTING_PACE)
    if tool not in tools:
        offered = ", ".join(f"`{name}`" for name in tools) or words.none
        return DemoReply(words.thought_missing.format(tool=tool), words.missing.format(tool=tool, offered=offered))
    return DemoReply(words.thought_tool.format(tool=tool), words.before[tool].format(**wanted), tool, wanted)


def parse_request(text: str) -> tuple[str, dict[str, Any]]:
    """Return the requested tool, or `count`, and its arguments; an empty name if nothing is requested."""
    whole = text
    # Bounded, because the patterns take quadratic time on malicious text.
    text = re.sub(r"(\s{2})\s+", r"\1", text[:MAX_REQUEST_LENGTH])
    for tool, pattern in COMPILED_PHRASES:
        # A shortened or normalized command would be a different one.
        found = pattern.search(text) if tool != "exec" else pattern.search(whole) if len(whole) <= MAX_REQUEST_LENGTH else None
        if found is None:
            continue
        part = {name: _strip_quotes(value) for name, value in found.groupdict().items() if value is not None}
        match tool:
            case "exec":
                return tool, {"command": _unquote_command(found["command"])}
            case "edit":
                return tool, {"path": part["path"], "old_text": part["old"], "new_text": part["new"]}
            case "write":
                return tool, {"path": part["path"], "content": (part.get("content") or choose_phrases(text).sample) + "\n"}
            case "grep":
                pattern_text = re.sub(
                    r"\s+in\s+(?:my\s+|the\s+|all\s+)*(?:files|workspace)\s*$", "", part["pattern"], flags=re.IGNORECASE
                )
                return tool, {"pattern": REGEX_CHARACTERS.sub(r"\\\1", _strip_quotes(pattern_text))}
            case "read":
                return tool, {"path": part["path"]}
            case "glob":
                return tool, {"pattern": "**/*"}
            case "count":
                return tool, {"to": min(int(part["to"]), MAX_COUNT)}
            case _:
                return tool, {}
    return "", {}


def _unquote_command(text: str) -> str:
    """Remove backticks or quotes around the whole command; otherwise keep every character."""
    text = text.strip()
    begin, end = text[0], text[-1]
    around = len(text) > 2 and (begin, end) in (("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("「", "」"))
    return text[1:-1] if around and begin not in text[1:-1] else text


def _strip_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] in QUOTES and text[-1] in QUOTES:
        return text[1:-1]
    return text.rstrip(".!?。！？").strip() or text


def _describe_result(result: ToolResultMessage, arguments: dict[str, Any], words: DemoPhrases) -> str:
    path = str(arguments.get("path", ""))
    if result.name == "exec":
        return _describe_command(result, str(arguments.get("command", "")), words)
    if result.is_error:
        return words.failed.format(tool=result.name, error=result.text.strip().replace("\n", "\n> "))
    match result.name:
        case "glob":
            return _describe_files(result.text, words)
        case "read":
            if not result.text.strip():
                return words.empty_file.format(path=path)
            suffix = path.rpartition(".")[2]
            return words.content.format(path=path) + "\n\n" + _fence(result.text, LANGUAGES.get(suffix, suffix), words)
        case "grep":
            if result.text.startswith("no line matches"):
                return words.no_match
            return words.matches + "\n\n" + _fence(result.text, "", words)
        case "write" | "edit":
            return words.done.format(result=result.text.strip(), path=path)
        case "session_status":
            facts = [line.partition(":") for line in result.text.splitlines() if line.strip()]
            return words.status + "\n\n" + "\n".join(f"- **{name.strip()}**: {value.strip()}" for name, _, value in facts)
    return words.other.format(tool=result.name) + "\n\n" + _fence(result.text, "", words)


def _describe_command(result: ToolResultMessage, command: str, words: DemoPhrases) -> str:
    text = result.text.strip()
    if result.is_error and text.startswith("exec_denied: "):
        return words.denied.format(command=command, reason=text.removeprefix("exec_denied: "))
    if result.is_error and not text.endswith("]"):  # the command was never run
        return words.failed.format(tool=result.name, error=text.replace("\n", "\n> "))
    printed, _, how = text.rpartition("\n")
    if how.startswith("[it runs in the background"):
        return words.goes_on.format(command=command) + (f"\n\n{_fence(printed, '', words)}" if printed else "")
    return words.ran.format(command=command, how=how.strip("[]")) + "\n\n" + _fence(printed, "", words)


def _describe_files(text: str, words: DemoPhrases) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("no files match"):
        return words.no_files
    files = [line for line in lines if not line.startswith("[")]
    shown = "\n".join(f"- `{name}`" for name in files[:MAX_LINES])
    more = words.more.format(count=len(files) - MAX_LINES) if len(files) > MAX_LINES else ""
    return words.files.format(count=len(files)) + "\n\n" + shown + (f"\n\n{more}" if more else "")


def _fence(text: str, language: str, words: DemoPhrases) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(lines[:MAX_LINES])[:MAX_CHARACTERS]
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    cut = f"\n\n{words.cut}" if len(shown) < len("\n".join(lines)) else ""
    return f"{fence}{language}\n{shown}\n{fence}{cut}"
