"""Argument rules of git: subcommands and options that start nothing but git; everything else needs approval.

Aliases, editors, external diffs, transports and hooks are other programs. The settings and hooks of the current repository are
checked too, because anyone who can write to it can name programs there.
"""

import re

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.git_repository import find_started_programs
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.programs.options import ParsedArguments
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import split_names

register_reasons(
    {
        "git.no_subcommand": gettext_noop("the subcommand is missing or only known at run time"),
        "git.unknown_subcommand": gettext_noop(
            "the subcommand {name} is not on the allowlist; it may be an alias or another program"
        ),
        "git.stash": gettext_noop("this use of stash is not on the allowlist"),
        "git.editor": gettext_noop("{name} would open an editor"),
        "git.unknown_repository": gettext_noop("the repository it would use is unknown"),
        "git.not_read_only": gettext_noop("this use of {name} is not known to be read-only"),
        "git.clone_source": gettext_noop("the repository to clone is missing"),
        "git.remote": gettext_noop("{remote} is neither the name of a remote nor an https URL, and may start a program"),
        "git.refs": gettext_noop("what it fetches or sends is only known at run time"),
    }
)

GLOBAL = "-C: --no-pager -P --version --no-optional-locks --literal-pathspecs"
DIFF = """-p -u -U: --patch --no-patch -s --stat[=] --numstat --shortstat --dirstat[=] --summary --name-only --name-status --raw
    -z --color[=] --no-color --word-diff[=] --color-words[=] --unified= --minimal --patience --histogram -w -b -a --text
    --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines -M? -C? --find-renames[=]
    --find-copies[=] --no-renames -R --diff-filter= -S: -G: --pickaxe-all --exit-code --quiet -q --check --full-index
    --binary --abbrev[=] --relative[=] --no-prefix --no-ext-diff --no-textconv --ignore-submodules[=] --submodule[=] -W
    --function-context --compact-summary -#"""
LOG = (
    DIFF
    + """
    -n: --max-count= --oneline --graph --decorate[=] --no-decorate --all --branches[=] --tags[=] --remotes[=] --since=
    --until= --after= --before= --author= --committer= --grep= -i --regexp-ignore-case --invert-grep --all-match -E -F -P
    --merges --no-merges --first-parent --reverse --date= --format= --pretty[=] --abbrev-commit --no-abbrev-commit
    --follow --skip= --topo-order --date-order --left-right --cherry-pick --cherry-mark --not --stdin -L:
    --no-walk[=] --notes[=] --no-notes --parents --children --relative-date --full-history --simplify-by-decoration
    --count -g --walk-reflogs"""
)
REMOTE = """-q -v -n -f --quiet --verbose --all --prune -p --tags -t --no-tags --depth= --unshallow --dry-run --progress --jobs=
    -j:"""
# Options by subcommand. Those that open an editor or need a signing program are omitted.
SUBCOMMANDS: dict[str, str] = {
    "status": """-s -b -v -z --short --branch --long --verbose --porcelain[=] -u? --untracked-files[=] --ignored[=] --show-stash
    --ahead-behind --no-ahead-behind --renames --no-renames --column[=] --ignore-submodules[=]""",
    "log": LOG,
    "show": LOG,
    "whatchanged": LOG,
    "shortlog": "-s -n -e -c --summary --numbered --email --since= --until= --all --no-merges --group= --format=",
    "reflog": LOG,
    "diff": DIFF + " --cached --staged --merge-base --no-index --base --ours --theirs",
    "diff-tree": DIFF + " -r -t --root --no-commit-id -m -c --cc --stdin",
    "diff-index": DIFF + " --cached",
    "diff-files": DIFF,
    "rev-list": LOG,
    "rev-parse": """--abbrev-ref[=] --short[=] --show-toplevel --git-dir --absolute-git-dir --show-prefix --show-cdup --verify -q
    --quiet
    --is-inside-work-tree --is-bare-repository --is-inside-git-dir --symbolic-full-name --symbolic --git-path= --all
    --branches[=] --tags[=] --git-common-dir --show-superproject-working-tree""",
    "branch": """-a -r -v -vv -l -d -D -m -M -c -f -q -t -u: --all --remotes --verbose --list --delete --move --copy --force --quiet
    --show-current --merged[=] --no-merged[=] --contains[=] --no-contains[=] --sort= --format= --points-at= --track[=]
    --no-track --set-upstream-to= --unset-upstream --column[=] --color[=] --no-color""",
    "tag": """-l -n? -d -f -a -m: -F: --list --delete --force --annotate --message= --sort= --format= --contains[=] --no-contains[=]
    --merged[=] --no-merged[=] --points-at=""",
    "blame": """-L: -w -M? -C? -s -e -l -t -c -f -n -p --porcelain --line-porcelain --date= --since= --show-email --show-name
    --reverse=""",
    "annotate": "-L: -w -s -e -l -t",
    "grep": """-n -i -w -l -L -c -v -h -H -E -F -P -G -e: -A: -B: -C: -m: -o -p -W -q -a -I -z --line-number --ignore-case
    --word-regexp --files-with-matches --name-only --count --invert-match --extended-regexp --fixed-strings --perl-regexp
    --cached --untracked --no-index --heading --break --and --or --not --all-match --quiet --max-depth= --color[=]
    --column --show-function -#""",
    "ls-files": """-c -d -m -o -i -s -u -z -t -v -x: -X: --cached --deleted --modified --others --ignored --stage --unmerged
    --exclude=
    --exclude-from= --exclude-standard --full-name --error-unmatch --directory --eol --deduplicate --no-empty-directory
    --abbrev[=]""",
    "ls-tree": """-r -d -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev[=] --format= --object-only""",
    "cat-file": "-t -s -p -e --batch-check[=] --batch[=]",
    "describe": """--tags --all --always --long --dirty[=] --abbrev[=] --match= --exclude= --contains --exact-match --first-parent
    --broken[=]""",
    "merge-base": "-a --all --octopus --is-ancestor --fork-point --independent",
    "name-rev": "--name-only --tags --refs= --all --always",
    "show-ref": "--head --heads --tags -d -s --hash[=] --verify -q --quiet --abbrev[=]",
    "for-each-ref": "--sort= --format= --count= --points-at= --merged[=] --no-merged[=] --contains[=]",
    "symbolic-ref": "-q --quiet --short",
    "count-objects": "-v -H --verbose --human-readable",
    "check-ignore": "-v -n -q -z --verbose --non-matching --quiet --no-index --stdin",
    "check-attr": "-a --all --cached -z --stdin",
    "hash-object": "-t: --stdin",
    "var": "-l",
    "add": """-A -u -n -v -f -N --all --no-all --update --dry-run --verbose --force --intent-to-add --ignore-errors --renormalize
    --chmod=""",
    "rm": "-r -f -n -q --cached --force --dry-run --quiet --ignore-unmatch",
    "mv": "-f -k -n -v --force --dry-run --verbose",
    "commit": """-m: -F: -a -q -v -s -n --message= --file= --all --amend --no-edit --quiet --verbose --signoff --allow-empty
    --no-verify --allow-empty-message --author= --date= --dry-run --fixup= --only --include --no-gpg-sign --reuse-message=
    -C:""",
    "checkout": """-b: -B: -q -f -t -d --quiet --force --track[=] --no-track --detach --ours --theirs --orphan= --progress
    --no-progress""",
    "switch": """-c: -C: -d -q -f -t --create= --force-create= --detach --quiet --force --discard-changes --track[=] --no-track
    --orphan=""",
    "restore": "-s: -S -W -q --source= --staged --worktree --quiet --ours --theirs --ignore-unmerged",
    "reset": "-q -N --soft --mixed --hard --merge --keep --quiet --intent-to-add",
    "stash": """-u -a -k -q -m: -p --include-untracked --all --keep-index --no-keep-index --quiet --message= --index --stat
    --patch""",
    "merge": """-q -v -m: --message= --no-edit --ff --no-ff --ff-only --squash --no-commit --abort --quit --stat --no-stat --quiet
    --verbose --no-verify --allow-unrelated-histories""",
    "cherry-pick": "-n -x --no-commit --abort --quit --skip --ff --allow-empty -m:",
    "revert": "-n -m: --no-edit --no-commit --abort --quit --skip",
    "rebase": "--abort --quit --onto= -q --quiet --autostash --no-autostash --root --stat",
    "apply": """-R -v -q -p: -C: --check --stat --numstat --summary --index --cached --3way -3 --reverse --reject --verbose --quiet
    --whitespace= --recount --include= --exclude= --ignore-whitespace""",
    "clean": "-n -f -d -x -X -q -e: --dry-run --force --quiet --exclude=",
    "init": "-q -b: --quiet --bare --initial-branch=",
    "fetch": REMOTE,
    "pull": REMOTE + " --rebase[=] --no-rebase --ff-only --ff --no-ff --no-edit --autostash -r?",
    "push": """-q -v -n -u --quiet --verbose --dry-run --set-upstream --tags --follow-tags --all --porcelain --progress
    --force-with-lease[=]""",
    "clone": """-q -v -b: -n --quiet --verbose --branch= --depth= --single-branch --no-single-branch --no-tags --no-checkout
    --progress""",
    "ls-remote": "-q -h -t --heads --tags --refs --quiet --sort= --exit-code",
    "archive": "-l -v --list --verbose --format= --prefix= -o:> --output=> -#",
    "format-patch": "-o:> --output-directory=> --stdout -n -N -# --cover-letter -k --signoff -s",
    "gc": "-q --quiet --auto --prune[=] --no-prune --aggressive",
    "fsck": "--full --strict --unreachable --no-dangling --lost-found --verbose",
    "version": "--build-options",
}
# These subcommands change files or references and can run many different hooks; three other hooks run for nearly every subcommand.
HOOK_SUBCOMMANDS = split_names("commit checkout switch merge cherry-pick revert rebase pull push reset restore am clone stash")
NESTED_SUBCOMMANDS = {  # the first operand must be one of these; some also allow none
    "stash": split_names("push pop apply list show drop clear save"),
    "remote": frozenset({"get-url"}),
    "worktree": frozenset({"list"}),
    "submodule": frozenset({"status"}),
    "notes": frozenset({"list", "show"}),
    "config": frozenset({"get", "list"}),
}
CONFIG = """--get --get-all --get-regexp --list -l --local --global --system --show-origin --show-scope --name-only -z --null
    --type= --default="""
NO_EDITOR_OPTIONS = {  # without one of these options, git opens an editor
    "commit": ("-m", "--message", "-F", "--file", "--no-edit", "--dry-run", "-C", "--reuse-message", "--fixup"),
    "merge": ("--no-edit", "--ff-only", "--abort", "--quit", "-m", "--message", "--no-commit", "--squash"),
    "revert": ("--no-edit", "--no-commit", "-n", "--abort", "--quit", "--skip"),
}
# Subcommands that change the content of workspace files, unless given certain options (READ_ONLY_OPTIONS, `_changes_files`).
CHANGING_SUBCOMMANDS = split_names("checkout switch restore reset stash merge cherry-pick revert rebase pull apply clone mv")
READ_ONLY_OPTIONS = {
    "apply": split_names("--check --stat --numstat --summary"),
    "merge": split_names("--quit"),
    "cherry-pick": split_names("--quit"),
    "revert": split_names("--quit"),
    "rebase": split_names("--quit"),
}
NETWORK_SUBCOMMANDS = split_names("fetch pull push clone ls-remote")
REMOTE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
SAFE_URL = re.compile(r"https://[A-Za-z0-9._/~:@%+-]+")


def check_git(call: ProgramCall) -> None:
    top = call.read(GLOBAL, stop_at_operand=True)
    if top.unknown or (top.has("--version") and top.after == len(call.arguments)):
        return
    rest = call.arguments[top.after :]
    name = rest[0].text if rest else None
    if name is None:
        call.doubt(Reason("git.no_subcommand"))
        return
    arguments = rest[1:]
    if name not in SUBCOMMANDS:
        _check_repository(call, top, name, ParsedArguments())
    if name in NESTED_SUBCOMMANDS and name not in SUBCOMMANDS:
        _check_nested(call, name, arguments)
        return
    if name not in SUBCOMMANDS:
        call.doubt(Reason("git.unknown_subcommand", name=name))
        return
    found = call.read(SUBCOMMANDS[name], arguments)
    _check_repository(call, top, name, found)
    if name == "stash" and found.operands and found.operands[0].text not in NESTED_SUBCOMMANDS["stash"]:
        call.doubt(Reason("git.stash"))
    if name in NO_EDITOR_OPTIONS and not found.has(*NO_EDITOR_OPTIONS[name]):
        call.doubt(Reason("git.editor", name=name))
    if name == "tag" and found.has("-a", "--annotate") and not found.has("-m", "--message", "-F"):
        call.doubt(Reason("git.editor", name=name))
    if name in CHANGING_SUBCOMMANDS and _changes_files(name, found):
        call.content_targets.append("")
    if name in NETWORK_SUBCOMMANDS:
        _check_network(call, name, found)
    if name in ("init",):
        for directory in found.operands:
            call.write(directory)


def _check_repository(call: ProgramCall, top: ParsedArguments, name: str, found: ParsedArguments) -> None:
    ignored = [word.text for word in found.given.get("--ignore-submodules", [])]
    submodules = not ignored or any(text not in ("all", "") for text in ignored)
    repositories = call.resolve_directories(top.given.get("-C", []))
    if not repositories:
        call.doubt_files(Reason("git.unknown_repository"))
    for repository in sorted(repositories):
        if started := find_started_programs(repository, hooks=name in HOOK_SUBCOMMANDS, submodules=submodules):
            call.doubt_files(started)


def _changes_files(name: str, found: ParsedArguments) -> bool:
    match name:
        case "checkout" | "switch":  # a new branch starts with the current content
            return bool(found.operands) or not found.has("-b", "-c", "--create")
        case "reset":
            return found.has("--hard", "--merge", "--keep")
        case "restore":
            return not found.has("-S", "--staged") or found.has("-W", "--worktree")
        case "stash":
            return not found.operands or found.operands[0].text not in ("list", "show", "drop", "clear")
    return not found.has(*READ_ONLY_OPTIONS.get(name, ()))


def _check_nested(call: ProgramCall, name: str, arguments: tuple[Word, ...]) -> None:
    found = call.read(CONFIG if name == "config" else "-v --verbose --recursive --porcelain", arguments)
    first = found.operands[0].text if found.operands else None
    reads = found.has("--get", "--get-all", "--get-regexp", "--list", "-l") if name == "config" else not found.operands
    if first not in NESTED_SUBCOMMANDS[name] and not (reads and name in ("config", "remote")):
        call.doubt(Reason("git.not_read_only", name=name))


def _check_network(call: ProgramCall, name: str, found: ParsedArguments) -> None:
    call.access_hints.append("network")
    if not found.operands:
        if name == "clone":
            call.doubt(Reason("git.clone_source"))
        return
    where = found.operands[0].text or ""
    plain = SAFE_URL.fullmatch(where) or (name != "clone" and REMOTE_NAME.fullmatch(where) and "::" not in where)
    if not plain:
        call.doubt(Reason("git.remote", remote=found.operands[0].shown))
    if any("::" in (operand.text or "::") for operand in found.operands[1:]):
        call.doubt(Reason("git.refs"))
    if name == "clone":
        for directory in found.operands[1:]:
            call.write(directory)
        if len(found.operands) == 1:
            call.write(Word(text=".", lead="."))
