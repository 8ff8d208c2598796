"""Walk words and redirections to find what is expanded and what runs inside them.

Node types and their fields are an allowlist here as well. Statements inside a word are handed back to the statement walk.
"""

import os

from tools_app.exec.gate.shell.directories import Cwds
from tools_app.exec.gate.shell.findings import Redirection, WalkResult
from tools_app.exec.gate.shell.shfmt import Node
from tools_app.exec.gate.shell.variables import collect_variables, find_parameter_doubt, is_plain_arithmetic
from tools_app.exec.gate.shell.words import Word, read_word
from tools_app.exec.gate.types import GateReason, PartKind

ExitCwds = tuple[Cwds, Cwds]  # after success, after failure

POSITION_FIELDS = {"Offset", "Line", "Col"}
KNOWN_FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "File": "Stmts Last",
        "Stmt": "Cmd Redirs Negated Background Comments",
        "CallExpr": "Assigns Args",
        "BinaryCmd": "Op X Y",
        "Subshell": "Stmts Last",
        "Block": "Stmts Last",
        "IfClause": "Cond Then Else CondLast ThenLast Last",
        "WhileClause": "Until Cond Do CondLast DoLast",
        "ForClause": "Loop Do DoLast",
        "WordIter": "Name Items",
        "CaseClause": "Word Items Last",
        "CaseItem": "Op Patterns Stmts Comments Last",
        "TestClause": "X",
        "TimeClause": "PosixFormat Stmt",
        "Redirect": "Op N Word Hdoc",
        "ArithmCmd": "X",
    }.items()
}
WRITING_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
COPYING_OPERATORS = frozenset({">&", "<&"})
HEREDOC_OPERATORS = frozenset({"<<", "<<-"})


class WordWalker:
    def __init__(self, tree: Node) -> None:
        self.found = WalkResult()
        self.variables = collect_variables(tree)

    def statement(self, node: Node, cwds: Cwds) -> ExitCwds:
        raise NotImplementedError

    def doubt(self, code: str, text: str) -> None:
        self.found.doubts.append(GateReason(code, text))

    def mark(self, node: Node, kind: PartKind, note: str = "") -> None:
        self.found.marks.append((node["Pos"]["Offset"], node["End"]["Offset"], kind, note))

    def check(self, node: Node, kind: str) -> None:
        for name, value in node.items():
            if name in ("Type", "Pos", "End") or name in KNOWN_FIELDS[kind]:
                continue
            if not (isinstance(value, dict) and value.keys() == POSITION_FIELDS):
                self.doubt("syntax", f"The line uses shell syntax that is not on the list: {kind} with {name}.")

    def anything(self, node: object, cwds: Cwds) -> None:
        """Visit every statement below this node."""
        if isinstance(node, list):
            for each in node:
                self.anything(each, cwds)
        elif isinstance(node, dict):
            if "Cmd" in node or "Redirs" in node:
                self.statement(node, cwds)
            else:
                for each in node.values():
                    self.anything(each, cwds)

    def word(self, node: Node, *, mark: bool = False) -> Word:
        if not node.keys() <= {"Type", "Pos", "End", "Parts"}:
            self.doubt("syntax", "The line holds a word of a kind that is not on the list.")
        if mark:
            self.mark(node, "argument")
        for part in node.get("Parts", []):
            self.part(part)
        return read_word(node, self.variables)

    def part(self, node: Node) -> None:
        match node["Type"]:
            case "Lit" | "SglQuoted":
                return
            case "DblQuoted":
                if node.get("Dollar"):
                    self.doubt("expansion", 'The line holds a $"…" text, which is looked up and replaced.')
                for part in node.get("Parts", []):
                    self.part(part)
            case "ParamExp":
                if doubt := find_parameter_doubt(node, self.variables):
                    self.found.doubts.append(doubt)
                self.nested(node)
            case "ArithmExp" if is_plain_arithmetic(node.get("X"), self.variables):
                return
            case kind:
                what = {
                    "CmdSubst": "runs a command inside another ($(…) or `…`)",
                    "ProcSubst": "runs a command behind a file name, <(…) or >(…)",
                    "ArithmExp": "evaluates arithmetic with variables",
                }.get(kind, f"uses shell syntax that is not on the list: {kind}")
                self.doubt("substitution", f"The line {what}.")
                self.mark(node, "substitution")
                self.anything(node, None)

    def nested(self, node: Node) -> None:
        """Visit the words inside an expansion: defaults, patterns, replacements, indexes."""
        for value in node.values():
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, dict):
                    continue
                if isinstance(each.get("Parts"), list):
                    self.word(each)
                else:
                    self.nested(each)

    # Redirections.

    def redirect(self, node: Node, cwds: Cwds) -> None:
        self.check(node, "Redirect")
        self.mark(node, "redirect")
        if "{" in node.get("N", {}).get("Value", ""):
            self.doubt("redirect", "A redirection stores its number in a variable.")
        operator = node["Op"]
        target = self.word(node["Word"])
        if operator in HEREDOC_OPERATORS:
            for part in node.get("Hdoc", {}).get("Parts", []):
                self.part(part)
            return
        if operator == "<<<":
            return
        if target.text is None:
            self.doubt("redirect", f"A redirection goes to a file known only when the line runs: it has {target.dynamic}.")
            return
        if operator in COPYING_OPERATORS and (target.text == "-" or target.text.removesuffix("-").isdecimal()):
            return
        if os.path.normpath(target.text).startswith(("/dev/tcp", "/dev/udp", "//dev/tcp", "//dev/udp")):
            self.doubt("network", f"A redirection opens a network connection: {target.text}.")
        elif operator in WRITING_OPERATORS or operator == ">&":
            self.found.writes.append(Redirection(target, cwds))
        elif operator != "<":
            self.doubt("redirect", f"The redirection {operator} is not on the list.")
