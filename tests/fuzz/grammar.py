"""Random command lines: valid and broken, simple and devious. All command names are ours, so a log shows what ran."""

from random import Random

GOOD = ("aa", "bb", "cc")  # on the allowlist
BAD = ("xx", "yy", "zz")  # not on the allowlist
# The programs in these lines are allowlisted too; mutated, the lines have shapes that the grammar does not generate.
KNOWN_GOOD = (
    "ls -la | grep foo | head -20",
    'for f in *.py; do wc -l "$f"; done',
    "cd src && ls -l 2>/dev/null | wc -l",
    "if [ -f f.txt ]; then cat f.txt; else ls; fi",
    "cat <<'E'\nhello $x\nE",
    "grep -rn 'a b' . | sort | uniq -c",
    'case "$x" in a|b) ls;; *) cat f.txt;; esac',
    "ls # a comment\ncat f.txt",
    "cat f.txt \\\n  | wc -l",
    "{ ls; cat f.txt; } > out.txt",
    "(cd src; ls) || echo no",
    '[[ -f f.txt && "$x" == a* ]] && ls',
    "time ls | wc -l",
    "n=3; head -n $n f.txt",
    "echo ${x:-none} ${x%.py} ${#x}",
    "cat <<E\nname: $x\nE\nls",
    "! grep -q a f.txt && echo none",
    "while [ -f gone ]; do ls; done",
)
WORDS_OF_GOOD = ("ls", "grep", "head", "wc", "cat", "sort", "uniq")
SEPARATORS = (";", "\n", " && ", " || ", " | ", " & ", " |& ", "; ", "\n\n", " ;\n")
JOINT = "\\\n"
INSERTS = (
    JOINT,
    " \\\n",
    "#",
    " # ",
    "'",
    '"',
    "`",
    "$",
    "(",
    ")",
    "{",
    "}",
    ";",
    "&",
    "|",
    "\n",
    "\\",
    "<",
    ">",
    "time ",
    "!",
    " ",
    "xx",
    "\nxx\n",
    "$(xx)",
)


class Lines:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bodies: list[str] = []  # of here-documents, for the next line break

    def line(self) -> str:
        self.bodies = []
        if self.random.random() < 0.2:
            text = self.random.choice(KNOWN_GOOD)
        else:
            text = self._with_bodies(self.statements(self.random.randint(1, 3), depth=0))
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2, 3))):
            text = self.mutated(text)
        return text

    def mutated(self, text: str) -> str:
        at = self.random.randint(0, len(text))
        match self.random.randint(0, 5):
            case 0:
                return text[:at] + text[at + 1 :]
            case 1:
                other = self.random.randint(0, len(text))
                return text[: min(at, other)] + text[max(at, other) :] if abs(at - other) < 12 else text
            case 2:
                return text[:at] + self.simple(depth=2) + text[at:]
            case _:
                return text[:at] + self.random.choice(INSERTS) + text[at:]

    def statements(self, count: int, depth: int) -> str:
        text = self.statement(depth)
        for _ in range(count - 1):
            separator = self.random.choice(SEPARATORS)
            if "\n" in separator:
                text = self._with_bodies(text)
            text += separator + self.statement(depth)
        if self.random.random() < 0.1:
            text += self.random.choice((" # note", " # note \\\n", " #\n", "\n# xx\n"))
        return text

    def _with_bodies(self, text: str) -> str:
        for body in self.bodies:
            text += body
        self.bodies = []
        return text

    def statement(self, depth: int) -> str:
        if depth > 2 or self.random.random() < 0.62:
            return self.simple(depth)
        inner = self.statements(self.random.randint(1, 2), depth + 1)
        other = self.simple(depth + 1)
        name, word = self.name(), self.word(depth + 1)
        shape = self.random.choice(
            (
                "if {0}; then {1}; fi",
                "if {1}\nthen {0}\nelse {1}; fi",
                "for v in {3} b; do {0}; done",
                "for v in a\ndo {0}\ndone",
                "for ((i=0; i<2; i++)); do {1}; done",
                "while {1}; do {0}; break; done",
                "until {1}; do {0}; break; done",
                "case {3} in a|b) {0};; *) {1};; esac",
                "case a in\n(a) {0}\n;;\nesac",
                "( {0} )",
                "{{ {0}; }}",
                "! {1}",
                "time {1}",
                "time -p {1}",
                "{1} | time {2}",
                "[[ -n {3} ]] && {1}",
                "[[ {3} == a* || -f f.txt ]]; {1}",
                "f() {{ {0}; }}; f",
                "function g {{ {1}; }}\ng",
                "coproc {1}",
                "v={3}; {1}",
                "v=$(({4})); {1}",
                "(( {4} )); {1}",
                "select v in a; do {1}; done",
                "eval {3}",
                "eval '{1}'",
                "{2} <({1})",
                "[ {3} ] && {1}",
                "test {3} = b || {1}",
                "command {1}",
                "exec {1}",
                "alias {2}=xx; {2}",
                "trap '{1}' EXIT",
            )
        )
        return shape.format(inner, other, name, word, self.arithmetic())

    def simple(self, depth: int) -> str:
        pieces = []
        if self.random.random() < 0.08:
            pieces.append(self.random.choice(("LANG=C", "v=1", "PATH=/bin", f"v={self.word(depth + 1)}", "LC_ALL=C", "v[$(xx)]=1")))
        pieces.append(self.name())
        pieces += [self.word(depth) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        if self.random.random() < 0.2:
            pieces.append(self.redirect(depth))
        return self.random.choice((" ",) * 12 + ("\t", " \\\n", JOINT + " ")).join(pieces)

    def name(self) -> str:
        name = self.random.choice(GOOD) if self.random.random() < 0.97 else self.random.choice(BAD)
        if self.random.random() < 0.88:
            return name
        bad = self.random.choice(BAD)
        return self.random.choice(
            (
                f'"{name}"',
                f"'{name}'",
                f"{name[0]}\\{name[1:]}",
                f'{name[0]}""{name[1:]}',
                f"$'{name}'",
                f"$'\\x{ord(name[0]):x}'{name[1:]}",
                f"{name[0]}{JOINT}{name[1:]}",
                f"{{{bad},{name}}}",
                f"{bad[0]}*",
                "$v",
                f"${{v:-{bad}}}",
                f"$(echo {bad})",
                f"{JOINT}{name}",
                f"\\{name}",
                f"{name}#",
                f'$"{name}"',
            )
        )

    def word(self, depth: int) -> str:
        nested = self.simple(depth + 1) if depth < 2 else self.random.choice(BAD)
        plain = self.random.choice(
            ("a", "b", "-l", "f.txt", "time", "--", "do", "in", "*", "x?", "[a-z]", "~", "{a,b}", "{1..3}", "!", "a=b", "a#b")
        )
        if self.random.random() < 0.75:
            return plain
        return self.random.choice(
            (
                "$v",
                '"$v"',
                "${v}",
                "'it is'",
                '"a b"',
                f'"{plain}"',
                "$'a\\nb'",
                "$'a\\'b'",
                "${v:-w}",
                f"${{v:-{plain}}}",
                f"${{v:-$({nested})}}",
                f'"${{v:-`{self.random.choice(BAD)}`}}"',
                f"${{v:-${JOINT}({nested})}}",
                f'"${JOINT}({nested})"',
                f"$({nested})",
                f"`{self.random.choice(BAD)}`",
                f'"$({nested})"',
                f"<({nested})",
                f"$(({self.arithmetic()}))",
                "${#v}",
                "${v%.py}",
                "${v/a/b}",
                "${v@P}",
                "${!v}",
                f"${{v[$({nested})]}}",
                "${v:1:2}",
                f"a{JOINT}b",
                f"a\\ {plain}",
                '"a\\"b"',
                f"'a{JOINT}b'",
                "@(a|b)",
                '"$@"',
                "$?",
                "#a",
                f"${JOINT}v",
                f"${{{JOINT}v}}",
                "\\",
            )
        )

    def arithmetic(self) -> str:
        return self.random.choice(
            (
                "1+2",
                "i",
                "i+1",
                "v",
                f"a[$({self.random.choice(BAD)})]",
                "1 > 0 ? 2 : 3",
                f"$({self.random.choice(BAD)})",
                "(2)*3",
                "i++",
            )
        )

    def redirect(self, depth: int) -> str:
        if self.random.random() < 0.35:
            return self.here_document(depth)
        return self.random.choice(
            (
                ">out.txt",
                "2>&1",
                "</dev/null",
                ">/dev/null",
                "&>out.txt",
                "<<<" + self.word(depth + 1),
                ">$v",
                f">$({self.random.choice(BAD)})",
                "2>/dev/null",
                "<f.txt",
                "{v}>out.txt",
            )
        )

    def here_document(self, depth: int) -> str:
        bad = self.random.choice(BAD)
        mark = self.random.choice(("E", "'E'", '"E"', "\\E", "E"))
        dash = self.random.choice(("", "", "-"))
        texts = (
            "text",
            "$v",
            f"$({bad})",
            f"`{bad}`",
            f"${JOINT}({bad})",
            "\\",
            "it's",
            '"',
            f"${{v:-$({bad})}}",
            "# no",
            bad,
            "\tE",
            f"\\$({bad})",
        )
        lines = [self.random.choice(texts) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.12:
            lines.append("x" + JOINT.rstrip("\n"))
        self.bodies.append("\n" + "\n".join([*lines, "E"]) + self.random.choice(("\n", "\n", "")))
        return f"<<{dash}{mark}"
