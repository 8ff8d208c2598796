"""Write the package map of docs/architecture.md from the import graph; `--check` only compares."""

import ast
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- package map: generated -->\n", "<!-- end of package map -->\n"
# Top to bottom, as in the layers contract of pyproject.toml.
LAYERS = (
    "clawsite.cli",
    "clawsite.client",
    "clawsite.web",
    "clawsite.api",
    "clawsite.gateway",
    "clawsite.connectors",
    "clawsite.routing",
    "agents",
    "tools_app",
    "sessions_app",
    "clawsite.accounts",
    "clawsite.infra",
)


def render() -> str:
    graph = grimp.build_graph("clawsite", "agents", "tools_app", "sessions_app")
    layers = [layer for layer in LAYERS if layer in graph.modules]
    lines = ["| package | modules | purpose | imports |", "| --- | --: | --- | --- |"]
    for layer in layers:
        below = [
            other
            for other in layers
            if other != layer and graph.direct_import_exists(importer=layer, imported=other, as_packages=True)
        ]
        lines.append(_row(graph, layer, ", ".join(f"`{other}`" for other in below)))
        for child in sorted(graph.find_children(layer)):
            if _is_package(child) and not child.endswith((".migrations", ".templatetags", ".management")):
                siblings = sorted(
                    other.rpartition(".")[2]
                    for other in graph.find_children(layer)
                    if other != child
                    and _is_package(other)
                    and graph.direct_import_exists(importer=child, imported=other, as_packages=True)
                )
                lines.append(_row(graph, child, ", ".join(f"`.{other}`" for other in siblings)))
    return "\n".join(lines) + "\n"


def _row(graph: grimp.ImportGraph, package: str, imports: str) -> str:
    own = [module for module in graph.find_children(package) if not _is_package(module)]
    docstring = ast.get_docstring(ast.parse((_path(package) / "__init__.py").read_text())) or ""
    return f"| `{package}` | {len(own)} | {docstring.splitlines()[0] if docstring else ''} | {imports} |"


def _path(package: str) -> Path:
    return ROOT.joinpath(*package.split("."))


def _is_package(module: str) -> bool:
    return (_path(module) / "__init__.py").exists()


def main() -> int:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    current = before + BEGIN + "\n" + render() + "\n" + END + after
    if "--check" in sys.argv:
        if current != page:
            print("docs/architecture.md: the package map is out of date; run `python .ci/package_map.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(current)
    return 0


if __name__ == "__main__":
    sys.exit(main())
