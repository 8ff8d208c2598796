"""The demo model's sentences, in English and Simplified Chinese. It answers in the language it was asked in."""

import re
from dataclasses import dataclass

CHINESE = re.compile(r"[一-鿿]")


@dataclass(frozen=True, slots=True)
class DemoPhrases:
    introduction: str
    thought_plain: str
    thought_tool: str
    thought_missing: str
    thought_result: str
    thought_count: str
    missing: str
    none: str
    before: dict[str, str]  # text before a tool call
    failed: str
    files: str
    no_files: str
    more: str
    content: str
    empty_file: str
    cut: str
    matches: str
    no_match: str
    done: str
    status: str
    other: str
    sample: str
    attached: str
    thought_attached: str
    ran: str
    goes_on: str
    denied: str
    summary_heading: str
    summary_tools: str


ENGLISH = DemoPhrases(
    introduction="""\
I am the **built-in demo model**: a fixed script, not an AI. I need no API key and no network, so you can try everything \
else: streaming, tools, policies, sessions.

Try one of these:

- `list the files in my workspace`
- `write notes.txt saying hello from the demo`
- `read notes.txt`
- `replace hello with goodbye in notes.txt`
- `search for goodbye`
- `status`
- `run ls -la`, once an operator lets agents request commands
- `count slowly to 30`, and press Stop before I am done

For a real model, set `CLAWSITE_MODEL` (for example `openai/gpt-5` or `ollama/llama3.1`) and its provider's API key \
(for example `OPENAI_API_KEY`), then start Clawsite again.
""",
    thought_plain="I don't recognize anything in this message, so I'll introduce myself and suggest what to try.",
    thought_tool="This request needs the tool {tool}. I have it, so I'll call it.",
    thought_missing="This request needs the tool {tool}, which I don't have. I'll say so.",
    thought_result="The tool {tool} has returned its result. I'll report it.",
    thought_count="Counting needs no tool. I'll go slowly, so you have time to press Stop.",
    missing="""\
For that I need the tool `{tool}`, which I don't have in this session (available: {offered}). \
Operators control in the tool policy which tools an agent can use.""",
    none="none",
    before={
        "glob": "I will look at the files in the workspace.",
        "read": "I will read `{path}`.",
        "write": "I will write `{path}`.",
        "edit": "I will change `{path}`.",
        "grep": "I will search the workspace.",
        "session_status": "I will look up the state of this session.",
        "exec": "I would like to run `{command}`. Depending on the exec rules, it may need approval first.",
    },
    failed="The tool `{tool}` reported an error:\n\n> {error}",
    files="Files in the workspace: **{count}**",
    no_files="The workspace has no files yet. You could say: `write notes.txt saying hello`.",
    more="… and {count} more.",
    content="This is in `{path}`:",
    empty_file="`{path}` is empty.",
    cut="Only the beginning is shown here; the full result is on the tool card.",
    matches="I found these lines:",
    no_match="No lines in the workspace match.",
    done="Done: {result}. You could now say: `read {path}`.",
    status="Status of this session:",
    other="Result of the tool `{tool}`:",
    sample="Hello from the Clawsite demo model.",
    attached="""\
You attached {names}. I am a fixed script and can't read attachments, but a real model would receive them: images as images, \
short texts in full. Other files are in the workspace under `uploads/`; you could say: `list the files in my workspace`.""",
    thought_attached="This message has an attachment. I'll mention it.",
    ran="`{command}` has run ({how}):",
    goes_on="`{command}` was started and is still running in the background. The card above shows when it finishes.",
    denied="The command `{command}` was denied:\n\n> {reason}",
    summary_heading="The demo model is a script and only lists what you asked:",
    summary_tools="Tools used: {tools}",
)

SIMPLIFIED_CHINESE = DemoPhrases(
    introduction="""\
我是**内置的演示模型**：一段固定的脚本，不是人工智能。我不需要密钥，也不需要网络，\
您可以用我试用其他一切功能：流式输出、工具、策略、会话。

您可以试试：

- `列出工作区的文件`
- `写入 notes.txt，内容是 你好`
- `读取 notes.txt`
- `把 notes.txt 里的 你好 替换成 再见`
- `搜索 再见`
- `状态`
- `运行 ls -la`（需要管理员先允许代理申请执行命令）
- `慢慢数到 30`，然后在数完之前按“停止”

要使用真正的模型，请设置 `CLAWSITE_MODEL`（例如 `openai/gpt-5` 或 `ollama/llama3.1`）\
以及对应的密钥（例如 `OPENAI_API_KEY`），然后重新启动 Clawsite。
""",
    thought_plain="这条消息里没有我认识的说法，所以我介绍自己，并说明可以试什么。",
    thought_tool="这件事可以用工具 {tool} 来做。它在我的工具之中，我来调用它。",
    thought_missing="这件事需要工具 {tool}，但没有提供给我。我如实说明。",
    thought_result="工具 {tool} 已经返回结果，我来转述。",
    thought_count="数数不需要工具。我慢慢来，好让您有时间按停止。",
    missing="""\
这件事需要工具 `{tool}`，但它不在本会话提供给我的工具之中（已提供：{offered}）。\
哪些工具可用，由管理员在工具策略中决定。""",
    none="无",
    before={
        "glob": "我来查看工作区里的文件。",
        "read": "我来读取 `{path}`。",
        "write": "我来写入 `{path}`。",
        "edit": "我来修改 `{path}`。",
        "grep": "我来搜索工作区。",
        "session_status": "我来查看本会话的状态。",
        "exec": "我想执行 `{command}`。根据执行规则，可能需要有人先批准。",
    },
    failed="工具 `{tool}` 报告了错误：\n\n> {error}",
    files="工作区里有 **{count}** 个文件：",
    no_files="工作区里还没有文件。您可以说：`写入 notes.txt，内容是 你好`。",
    more="……另有 {count} 个。",
    content="`{path}` 的内容：",
    empty_file="`{path}` 是空的。",
    cut="这里只显示开头，完整内容见工具自己的结果。",
    matches="找到了这些行：",
    no_match="工作区里没有匹配的行。",
    done="完成：{result}。接下来可以说：`读取 {path}`。",
    status="本会话的状态：",
    other="工具 `{tool}` 的回答：",
    sample="你好，这里是 Clawsite 演示模型。",
    attached="""\
您附上了 {names}。我只是固定的脚本，看不懂其中的内容；真正的模型会收到它：图片可以看到，短文本会完整给出。\
其他文件在工作区的 `uploads/` 里，您可以说：`列出工作区的文件`。""",
    thought_attached="这条消息带有附件，我说出它们的名字。",
    ran="`{command}` 已执行（{how}）：",
    goes_on="`{command}` 已启动，正在后台继续运行。结束时，上面的卡片会显示结果。",
    denied="我没有获准执行 `{command}`：\n\n> {reason}",
    summary_heading="演示模型只是一段脚本，仅列出您提过的要求：",
    summary_tools="用过的工具：{tools}",
)


def choose_phrases(text: str) -> DemoPhrases:
    return SIMPLIFIED_CHINESE if CHINESE.search(text) else ENGLISH
