"""Walk the syntax tree and collect what the line would do: every simple command, redirection and doubt.

Node types and their fields are an allowlist: anything unknown is a doubt, but its content is still visited, so that the blocklist
sees it. Follows `cd` through the line. Resolves no programs and knows no rules about them.
"""

from collections.abc import Iterable
from dataclasses import replace

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.builtins import BUILTINS, find_builtin_doubt
from tools_app.exec.gate.shell.directories import Cwds, changes_directory, cwds_after_cd, merge_cwds
from tools_app.exec.gate.shell.findings import ShellCommand, TooManyCommands, WalkResult
from tools_app.exec.gate.shell.shfmt import Node
from tools_app.exec.gate.shell.variables import ASSIGNABLE_NAME, find_assignment_doubt, is_plain_arithmetic
from tools_app.exec.gate.shell.word_walk import KNOWN_FIELDS, ExitCwds, WordWalker
from tools_app.exec.gate.shell.words import Variables, Word
from tools_app.exec.gate.types import ExecContext

register_reasons(
    {
        "gate.time": gettext_noop("The command line contains “time” after its beginning, where bash may run it as a program."),
        "gate.syntax.function": gettext_noop("The command line defines a function."),
        "gate.syntax.coprocess": gettext_noop("The command line starts a coprocess."),
        "gate.syntax.declaration": gettext_noop("The command line declares or exports variables."),
        "gate.syntax.let": gettext_noop("The command line evaluates arithmetic."),
        "gate.syntax.arithmetic": gettext_noop("The command line evaluates arithmetic with variables."),
        "gate.syntax.test": gettext_noop("The command line uses a test that is not on the allowlist: {test}."),
        "gate.fork-bomb": gettext_noop("The function {name} starts itself again: a fork bomb."),
        "gate.arithmetic.loop": gettext_noop("The loop does arithmetic with variables, whose values bash would evaluate."),
        "gate.arithmetic.test": gettext_noop("The test operator {operator} evaluates its operands."),
        "gate.assignment.loop": gettext_noop("The loop changes {name}, which can change what other commands do."),
        "gate.command-name": gettext_noop("The name of a command is only known at run time; it contains {part}."),
    }
)

MAX_COMMANDS = 200
SYNTAX_DOUBTS = {
    "FuncDecl": Reason("gate.syntax.function"),
    "CoprocClause": Reason("gate.syntax.coprocess"),
    "DeclClause": Reason("gate.syntax.declaration"),
    "LetClause": Reason("gate.syntax.let"),
    "ArithmCmd": Reason("gate.syntax.arithmetic"),
}


def walk_tree(tree: Node, context: ExecContext) -> WalkResult:
    walker = Walker(tree, context)
    walker.statements(tree.get("Stmts", []), frozenset({str(context.cwd)}))
    walker.check(tree, "File")
    return walker.found


class Walker(WordWalker):
    def __init__(self, tree: Node, context: ExecContext) -> None:
        super().__init__(tree)
        self.context = context
        self.first = min((statement["Pos"]["Offset"] for statement in tree.get("Stmts", [])), default=0)
        self.upstream: tuple[ShellCommand, ...] = ()
        self.loops = 0
        statements = tree.get("Stmts", [])
        self.found.only_command = (
            len(statements) == 1
            and statements[0].get("Cmd", {}).get("Type") == "CallExpr"
            and not statements[0].keys() & {"Redirs", "Negated", "Background", "Comments"}
            and not statements[0]["Cmd"].get("Assigns")
        )

    # Statements: each method returns the directories the line may be in afterwards.

    def statements(self, nodes: Iterable[Node], cwds: Cwds, given: str = "") -> Cwds:
        """Visit statements in order. `given` is a variable that is set here. Variables that the statements assign
        count as set until the last statement."""
        before = self.variables
        self.variables = _mark_certain(before, given)
        for node in nodes:
            cwds = merge_cwds(*self.statement(node, cwds))
            self.variables = _mark_certain(self.variables, *_list_assigned(node))
        self.variables = before
        return cwds

    def statement(self, node: Node, cwds: Cwds) -> ExitCwds:
        self.check(node, "Stmt")
        written = len(self.found.writes)
        for redirect in node.get("Redirs", []):
            self.redirect(redirect, cwds)
        command = node.get("Cmd")
        own, count = self.found.writes[written:], len(self.found.commands)
        succeeded, failed = self.command(command, cwds) if command else (cwds, cwds)
        if command and command["Type"] == "CallExpr" and command.get("Args"):
            for write in own:
                write.command = self.found.commands[count]
        if node.get("Background"):
            return cwds, cwds
        return (failed, succeeded) if node.get("Negated") else (succeeded, failed)

    def command(self, node: Node, cwds: Cwds) -> ExitCwds:
        kind = node["Type"]
        if kind in KNOWN_FIELDS:
            self.check(node, kind)
        match kind:
            case "CallExpr":
                return self.call(node, cwds)
            case "BinaryCmd" if node["Op"] in ("&&", "||"):
                succeeded, failed = self.statement(node["X"], cwds)
                if node["Op"] == "&&":
                    then, failed_then = self.statement(node["Y"], succeeded)
                    return then, merge_cwds(failed, failed_then)
                then, failed_then = self.statement(node["Y"], failed)
                return merge_cwds(succeeded, then), failed_then
            case "BinaryCmd" if node["Op"] in ("|", "|&"):
                before, count = self.upstream, len(self.found.commands)
                self.statement(node["X"], cwds)
                self.upstream = (*before, *self.found.commands[count:])
                self.statement(node["Y"], cwds)
                self.upstream = before
                return cwds, cwds  # each side runs in its own subshell
            case "Subshell":
                self.statements(node.get("Stmts", []), cwds)
                return cwds, cwds
            case "Block":
                after = self.statements(node.get("Stmts", []), cwds)
                return after, after
            case "IfClause":
                after = self.branch(node, cwds)
                return after, after
            case "WhileClause" | "ForClause" | "CaseClause":
                after = None if changes_directory(node) else cwds  # it is unknown whether and how often the body runs
                self.loops += kind != "CaseClause"
                self.compound(node, after)
                self.loops -= kind != "CaseClause"
                return after, after
            case "TestClause":
                self.test(node["X"])
            case "TimeClause":
                # After a pipe, bash runs it as a program; only at the very beginning of the line is it certainly the keyword.
                if node["Pos"]["Offset"] != self.first:
                    self.doubt("gate.time")
                return self.statement(node["Stmt"], cwds) if "Stmt" in node else (cwds, cwds)
            case "ArithmCmd" if is_plain_arithmetic(node.get("X"), self.variables):
                pass
            case _:
                self.visit_unknown(node)
        return cwds, cwds

    def visit_unknown(self, node: Node) -> None:
        """Record a doubt about an unknown node type, and visit its content anyway."""
        kind = node["Type"]
        self.found.doubts.append(SYNTAX_DOUBTS.get(kind) or Reason("gate.syntax.kind", kind=kind))
        count = len(self.found.commands)
        self.anything(node, None)
        if kind == "FuncDecl":
            name = node["Name"]["Value"]
            if _runs_concurrently(node) and any(command.name.text == name for command in self.found.commands[count:]):
                self.found.refused.append(Reason("gate.fork-bomb", name=name))

    def branch(self, node: Node, cwds: Cwds) -> Cwds:
        self.check(node, "IfClause")
        after = self.statements(node.get("Cond", []), cwds)
        branches = [self.statements(node.get("Then", []), after)]
        branches.append(self.branch(node["Else"], after) if "Else" in node else after)
        return merge_cwds(*branches)

    def compound(self, node: Node, cwds: Cwds) -> None:
        if node["Type"] == "ForClause":
            self.loop(node["Loop"])
        if "Word" in node:
            self.word(node["Word"])
        for item in node.get("Items", []):
            self.check(item, "CaseItem")
            for pattern in item.get("Patterns", []):
                self.word(pattern)
            self.statements(item.get("Stmts", []), cwds)
        self.statements(node.get("Cond", []), cwds)
        name = node["Loop"].get("Name", {}).get("Value", "") if node["Type"] == "ForClause" else ""
        self.statements(node.get("Do", []), cwds, name)

    def loop(self, node: Node) -> None:
        if node["Type"] != "WordIter":
            expressions = [node.get(name) for name in ("Init", "Cond", "Post")]
            # `i=0` inside (( )) assigns a number, but the previous value of i is unknown.
            if not all(is_plain_arithmetic(each, self.variables) for each in expressions):
                self.doubt("gate.arithmetic.loop")
            self.anything(expressions, None)
            return
        self.check(node, "WordIter")
        name = node["Name"]["Value"]
        if not ASSIGNABLE_NAME.fullmatch(name):
            self.doubt("gate.assignment.loop", name=name)
        for item in node.get("Items", []):
            self.word(item)

    def test(self, node: Node) -> None:
        """`[[ … ]]`: expansion never creates operators here, but `-v` and -eq evaluate their operands."""
        match node["Type"]:
            case "Word":
                self.word(node)
            case "ParenTest":
                self.test(node["X"])
            case "UnaryTest" if node["Op"] not in ("-v", "-R"):
                self.test(node["X"])
            case "BinaryTest":
                if node["Op"] in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge") and not all(
                    is_plain_arithmetic(node[side], self.variables) for side in ("X", "Y")
                ):
                    self.doubt("gate.arithmetic.test", operator=node["Op"])
                self.test(node["X"])
                self.test(node["Y"])
            case kind:
                self.doubt("gate.syntax.test", test=node.get("Op", kind))
                self.anything(node, None)

    # Simple commands and their words.

    def call(self, node: Node, cwds: Cwds) -> ExitCwds:
        arguments = node.get("Args", [])
        for assign in node.get("Assigns", []):
            self.mark(assign, "assignment")
            value = self.word(assign["Value"]) if "Value" in assign else None
            self.anything([assign.get("Index"), assign.get("Array")], None)
            if doubt := find_assignment_doubt(assign, value, before_command=bool(arguments)):
                self.found.doubts.append(doubt)
        if not arguments:
            return cwds, cwds
        if len(self.found.commands) >= MAX_COMMANDS:
            raise TooManyCommands
        # Added before its words are read, so that commands keep the order of the line.
        command = ShellCommand(Word(), (), cwds, self.upstream, once=not self.loops)
        self.found.commands.append(command)
        count = len(self.found.commands)
        words = [self.word(argument, mark=True) for argument in arguments]
        command.name, command.arguments = words[0], tuple(words[1:])
        command.nested_names = frozenset(inner.name.text or "" for inner in self.found.commands[count:])
        return self.named(command, arguments[0], cwds)

    def named(self, command: ShellCommand, node: Node, cwds: Cwds) -> ExitCwds:
        name = command.name.text
        if name is None:
            self.doubt("gate.command-name", part=command.name.shown)
            self.mark(node, "program", "known only when the line runs")
            return None, None
        command.builtin = name in BUILTINS
        self.mark(node, "builtin" if command.builtin else "program", name)
        if not command.builtin:
            return cwds, cwds
        if doubt := find_builtin_doubt(name, command.arguments):
            self.found.doubts.append(doubt)
            return None, None
        return (cwds_after_cd(command.arguments, cwds, self.context), cwds) if name == "cd" else (cwds, cwds)


def _mark_certain(variables: Variables, *names: str) -> Variables:
    return replace(variables, certain=variables.certain.union(names))


def _list_assigned(node: Node) -> list[str]:
    """The variables that certainly have a value after this statement."""
    command = node.get("Cmd", {})
    if node.get("Background") or node.get("Redirs") or command.get("Type") != "CallExpr" or command.get("Args"):
        return []
    return [assign["Name"]["Value"] for assign in command.get("Assigns", [])]


def _runs_concurrently(node: object) -> bool:
    """Whether anything inside runs concurrently with something else."""
    if isinstance(node, list):
        return any(map(_runs_concurrently, node))
    if not isinstance(node, dict):
        return False
    return bool(node.get("Background")) or node.get("Op") in ("|", "|&") or any(map(_runs_concurrently, node.values()))
