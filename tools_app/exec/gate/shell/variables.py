"""Check what a line does to variables, and which expansions are plain. Works on the syntax tree; no I/O."""

import re
from collections.abc import Iterator

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.shfmt import Node
from tools_app.exec.gate.shell.words import Variables, Word, read_word

register_reasons(
    {
        "gate.assignment.index": gettext_noop("The command line assigns an array or an array element to {name}, or appends to it."),
        "gate.assignment.value": gettext_noop("The value assigned to {name} is not known to be harmless."),
        "gate.assignment.command": gettext_noop("The command line sets {name} for a command, which can change what it runs."),
        "gate.assignment.name": gettext_noop("The command line changes {name}, which can change what other commands do."),
        "gate.expansion.unknown": gettext_noop("The meaning of the expansion {expansion} is unknown."),
        "gate.expansion.lookup": gettext_noop(
            "The expansion {expansion} is indirect or transforms the value, so it may evaluate other text."
        ),
        "gate.expansion.operator": gettext_noop(
            "The expansion {expansion} assigns a value or evaluates text (operator {operator})."
        ),
        "gate.arithmetic.slice": gettext_noop(
            "The offset or length in {expansion} is arithmetic with variables, whose values bash would evaluate."
        ),
    }
)

# Names with a meaning to bash or programs are uppercase, except these two.
ASSIGNABLE_NAME = re.compile(r"(?!(?:histchars|auto_resume)$)(?:[a-z][a-z0-9_]*|[A-Z])")
# May precede a command or be set alone. Their values must not name a file, as a locale or terminal name with a slash does.
HARMLESS_NAME = re.compile(r"LANG|LC_[A-Z]+|TERM|NO_COLOR|FORCE_COLOR|COLORTERM|TZ")
HARMLESS_VALUE = re.compile(r"[A-Za-z0-9_.@+-]*")
ZONE_VALUE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_+/-]*|")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?$#!@*-]")
PLAIN_OPERATORS = frozenset({":-", "-", ":+", "+", ":?", "?", "%", "%%", "#", "##", "^", "^^", ",", ",,"})


def collect_variables(tree: Node) -> Variables:
    """Every value the line assigns to a variable, anywhere in it: the order is ignored."""
    numbers: dict[str, bool] = {}
    values_by_name: dict[str, list[Node] | None] = {}
    for name, value, is_number in _iter_assignments(tree):
        numbers[name] = numbers.get(name, True) and is_number
        known = values_by_name.setdefault(name, [])
        if value is None or known is None:
            values_by_name[name] = None
        else:
            known.append(value)
    only_numbers = frozenset(name for name, is_number in numbers.items() if is_number and ASSIGNABLE_NAME.fullmatch(name))
    nothing = Variables()  # a value built from another variable stays unknown
    words: dict[str, tuple[Word, ...]] = {
        name: tuple(read_word(value, nothing) for value in values)
        for name, values in values_by_name.items()
        if values and name not in only_numbers
    }
    return Variables(words, only_numbers)


def _iter_assignments(node: object) -> Iterator[tuple[str, Node | None, bool]]:
    if isinstance(node, list):
        for each in node:
            yield from _iter_assignments(each)
    if not isinstance(node, dict):
        return
    match node.get("Type"):
        case "CallExpr" | "DeclClause":
            for assign in [*node.get("Assigns", []), *node.get("Args", [])]:
                if name := assign.get("Name"):
                    value = assign.get("Value")
                    plain = assign.keys() <= {"Pos", "End", "Name", "Value"}
                    yield name["Value"], value if plain else None, plain and _is_number(value)
        case "ForClause":
            loop = node["Loop"]
            if loop["Type"] == "WordIter":
                items = loop.get("Items")
                for item in items or [None]:
                    yield loop["Name"]["Value"], item, _is_number(item)
            elif (first := loop.get("Init") or {}).get("Op") == "=" and (parts := first["X"].get("Parts", [])):
                yield parts[0].get("Value", ""), None, True  # the value is checked when the loop is visited
    for value in node.values():
        if isinstance(value, list) or (isinstance(value, dict) and "Line" not in value):  # half of the tree is positions
            yield from _iter_assignments(value)


def _is_number(value: Node | None) -> bool:
    parts = (value or {}).get("Parts", [])
    if len(parts) != 1:
        return False
    return parts[0]["Type"] == "ArithmExp" or (parts[0]["Type"] == "Lit" and bool(WHOLE_NUMBER.fullmatch(parts[0]["Value"])))


def find_assignment_doubt(assign: Node, value: Word | None, *, before_command: bool) -> Reason | None:
    name = assign["Name"]["Value"]
    if not assign.keys() <= {"Pos", "End", "Name", "Value"}:
        return Reason("gate.assignment.index", name=name)
    if HARMLESS_NAME.fullmatch(name):
        text = "" if value is None else value.text
        allowed = ZONE_VALUE if name == "TZ" else HARMLESS_VALUE
        if text is not None and allowed.fullmatch(text):
            return None
        return Reason("gate.assignment.value", name=name)
    if before_command:
        return Reason("gate.assignment.command", name=name)
    if not ASSIGNABLE_NAME.fullmatch(name):
        return Reason("gate.assignment.name", name=name)
    return None


def find_parameter_doubt(node: Node, variables: Variables) -> Reason | None:
    """Why an expansion is not plain: it evaluates its value, assigns, or looks up other names."""
    name = node.get("Param", {}).get("Value", "")
    shown = f"${{{name}…}}"
    if not PARAMETER.fullmatch(name):
        return Reason("gate.expansion.unknown", expansion=shown)
    known = {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param", "Length", "Exp", "Repl", "Slice"}
    if not node.keys() <= known:
        return Reason("gate.expansion.lookup", expansion=shown)
    if (expansion := node.get("Exp")) and expansion["Op"] not in PLAIN_OPERATORS:
        return Reason("gate.expansion.operator", expansion=shown, operator=expansion["Op"])
    if slice_ := node.get("Slice"):
        for bound in ("Offset", "Length"):
            if bound in slice_ and not is_plain_arithmetic(slice_[bound], variables):
                return Reason("gate.arithmetic.slice", expansion=shown)
    return None


def is_plain_arithmetic(node: Node | None, variables: Variables) -> bool:
    """Whether all operands are whole numbers or variables that hold one: bash evaluates other variables' text as an expression."""
    if node is None:
        return True
    match node["Type"]:
        case "Word":
            parts = node.get("Parts", [])
            if len(parts) != 1:
                return False
            part = parts[0]
            if part["Type"] == "Lit":
                return bool(re.fullmatch(r"[0-9]{1,18}", part["Value"])) or part["Value"] in variables.numbers
            plain = part["Type"] == "ParamExp" and part.keys() <= {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param"}
            return plain and part["Param"]["Value"] in variables.numbers | {"#", "?"}
        case "BinaryArithm":
            return is_plain_arithmetic(node.get("X"), variables) and is_plain_arithmetic(node.get("Y"), variables)
        case "UnaryArithm" | "ParenArithm":
            return is_plain_arithmetic(node.get("X"), variables)
    return False
