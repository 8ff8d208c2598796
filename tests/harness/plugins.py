"""Distributions with a plugin in them, written into a directory that is put on the path: what `pip install` would leave there."""

import sys
from pathlib import Path

TOOLS = """
from tools_app.core.definition import ToolArgs, text_result, tool


class Args(ToolArgs):
    word: str = ""


@tool("{tool}", args=Args)
def make(env):
    '''Say a word back.'''

    async def perform(args, call):
        return text_result("{tool} says " + args.word)

    return perform


tools = [make]
"""


def install(folder: Path, name: str, code: str, *, version: str = "1.2", point: str = "") -> None:
    """A distribution clawsite-NAME whose entry point NAME is the module NAME_plugin, made of `code`."""
    module = f"{name.replace('-', '_')}_plugin"
    (folder / f"{module}.py").write_text(code)
    info = folder / f"clawsite_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: clawsite-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[clawsite.plugins]\n{name} = {point or module}\n")


def forget(folder: Path) -> None:
    """As after a restart."""
    from tools_app.sources import plugins
    from tools_app.sources import tools as source_tools

    plugins._imports.clear()
    source_tools.clear_caches()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


def note() -> None:
    """What a worker does: bring the rows in step with what is installed and what it brings."""
    from tools_app.sources import plugins
    from tools_app.sources import tools as source_tools

    plugins.record_plugins(plugins.list_installed(), source_tools.loaded_plugins())
