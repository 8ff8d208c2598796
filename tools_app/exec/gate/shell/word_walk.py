"""Walk words and redirections to find what is expanded and what runs inside them.

Node types and their fields are an allowlist here as well. Statements inside a word are handed back to the statement walk.
"""

import os
from typing import Any

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.directories import Cwds
from tools_app.exec.gate.shell.findings import Redirection, WalkResult
from tools_app.exec.gate.shell.shfmt import Node
from tools_app.exec.gate.shell.variables import collect_variables, find_parameter_doubt, is_plain_arithmetic
from tools_app.exec.gate.shell.words import Word, read_word
from tools_app.exec.gate.types import PartKind

register_reasons(
    {
        "gate.syntax.field": gettext_noop("The command line uses shell syntax that is not on the allowlist: {kind} with {field}."),
        "gate.syntax.kind": gettext_noop("The command line uses shell syntax that is not on the allowlist: {kind}."),
        "gate.syntax.word": gettext_noop("The command line has a kind of word that is not on the allowlist."),
        "gate.expansion.locale": gettext_noop('The command line has a $"…" string, which bash replaces with its translation.'),
        "gate.substitution.command": gettext_noop(
            "The command line uses command substitution, $(…) or `…`, which runs another command."
        ),
        "gate.substitution.process": gettext_noop(
            "The command line uses process substitution, <(…) or >(…), which runs another command."
        ),
        "gate.substitution.arithmetic": gettext_noop("The command line evaluates arithmetic with variables."),
        "gate.substitution.kind": gettext_noop("The command line uses a substitution that is not on the allowlist: {kind}."),
        "gate.redirect.variable": gettext_noop("A redirection stores its file descriptor in a variable."),
        "gate.redirect.unknown": gettext_noop(
            "A redirection uses a file that is only known at run time; its name contains {part}."
        ),
        "gate.redirect.operator": gettext_noop("The redirection {operator} is not on the allowlist."),
        "gate.network": gettext_noop("A redirection opens a network connection: {target}."),
    }
)

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
SUBSTITUTIONS = {
    "CmdSubst": Reason("gate.substitution.command"),
    "ProcSubst": Reason("gate.substitution.process"),
    "ArithmExp": Reason("gate.substitution.arithmetic"),
}
HEREDOC_OPERATORS = frozenset({"<<", "<<-"})


class WordWalker:
    def __init__(self, tree: Node) -> None:
        self.found = WalkResult()
        self.variables = collect_variables(tree)

    def statement(self, node: Node, cwds: Cwds) -> ExitCwds:
        raise NotImplementedError

    def doubt(self, code: str, **params: Any) -> None:
        self.found.doubts.append(Reason(code, **params))

    def mark(self, node: Node, kind: PartKind, note: str = "") -> None:
        self.found.marks.append((node["Pos"]["Offset"], node["End"]["Offset"], kind, note))

    def check(self, node: Node, kind: str) -> None:
        for name, value in node.items():
            if name in ("Type", "Pos", "End") or name in KNOWN_FIELDS[kind]:
                continue
            if not (isinstance(value, dict) and value.keys() == POSITION_FIELDS):
                self.doubt("gate.syntax.field", kind=kind, field=name)

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
            self.doubt("gate.syntax.word")
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
                    self.doubt("gate.expansion.locale")
                for part in node.get("Parts", []):
                    self.part(part)
            case "ParamExp":
                if doubt := find_parameter_doubt(node, self.variables):
                    self.found.doubts.append(doubt)
                self.nested(node)
            case "ArithmExp" if is_plain_arithmetic(node.get("X"), self.variables):
                return
            case kind:
                self.found.doubts.append(SUBSTITUTIONS.get(kind) or Reason("gate.substitution.kind", kind=kind))
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
            self.doubt("gate.redirect.variable")
        operator = node["Op"]
        target = self.word(node["Word"])
        if operator in HEREDOC_OPERATORS:
            for part in node.get("Hdoc", {}).get("Parts", []):
                self.part(part)
            return
        if operator == "<<<":
            return
        if target.text is None:
            self.doubt("gate.redirect.unknown", part=target.shown)
            return
        if operator in COPYING_OPERATORS and (target.text == "-" or target.text.removesuffix("-").isdecimal()):
            return
        if os.path.normpath(target.text).startswith(("/dev/tcp", "/dev/udp", "//dev/tcp", "//dev/udp")):
            self.doubt("gate.network", target=target.text)
        elif operator in WRITING_OPERATORS or operator == ">&":
            self.found.writes.append(Redirection(target, cwds))
        elif operator != "<":
            self.doubt("gate.redirect.operator", operator=operator)
