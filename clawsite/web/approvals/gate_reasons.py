"""Why a command needs approval, in the reader's language. The gate's sentences are in English and name programs and files;
pages in other languages put a short translated sentence before them. The gate's sentence is shown in every language.
"""

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy

from clawsite.web.visible_text import to_visible_html

SHORT_REASONS: dict[str, str | Promise] = {
    "arguments": gettext_lazy("These arguments are not known to be safe."),
    "arithmetic": gettext_lazy("Arithmetic expansion may run text as a command."),
    "ask-always": gettext_lazy("Every command here needs approval."),
    "asked-anew": gettext_lazy("The earlier approval is no longer valid."),
    "assignment": gettext_lazy("A variable may change what runs."),
    "blank": gettext_lazy("The command is empty."),
    "builtin": gettext_lazy("A shell builtin may change or evaluate something."),
    "bytes": gettext_lazy("The command is not valid text."),
    "changes-kernel": gettext_lazy("Loads code into the kernel."),
    "changes-rights": gettext_lazy("Changes the permissions of whole directories."),
    "characters": gettext_lazy("The command contains invisible characters."),
    "command-name": gettext_lazy("Which program runs is only known at run time."),
    "continuation": gettext_lazy("A line continuation may hide a command."),
    "destroys-files": gettext_lazy("Deletes or moves files that must not be lost."),
    "expansion": gettext_lazy("Part of the command is expanded at run time."),
    "files": gettext_lazy("Reads files that may change what it does."),
    "fork-bomb": gettext_lazy("Starts itself endlessly (fork bomb)."),
    "glob": gettext_lazy("A pattern may match a file name that is read as an option."),
    "inline-code": gettext_lazy("Runs code that is not in a checked file."),
    "input": gettext_lazy("What the program does with its input can’t be predicted."),
    "isolation": gettext_lazy("This host can’t provide the sandbox the rules require."),
    "kills-everything": gettext_lazy("Kills every process."),
    "leaves-sandbox": gettext_lazy("Escapes the sandbox."),
    "makes-filesystem": gettext_lazy("Erases a disk."),
    "network": gettext_lazy("Opens a network connection."),
    "no-sandbox": gettext_lazy("Without a sandbox, every command needs approval."),
    "not-allowlisted": gettext_lazy("A program is not on the allowlist."),
    "not-found": gettext_lazy("A program was not found."),
    "not-trusted": gettext_lazy("Other users can modify a program."),
    "other-arguments": gettext_lazy("A program is allowed only with other arguments."),
    "outside": gettext_lazy("Requested by an external program."),
    "own-guard": gettext_lazy("Changes Clawsite itself. Agents can’t do that."),
    "redirect": gettext_lazy("The target of a redirection is not certain."),
    "runs-download": gettext_lazy("Runs code downloaded from the network."),
    "second-opinion": gettext_lazy("Two parsers read the command differently."),
    "security-deny": gettext_lazy("Running commands is disabled here."),
    "size": gettext_lazy("The command is too long."),
    "stops-machine": gettext_lazy("Shuts down or restarts the machine."),
    "substitution": gettext_lazy("The command uses the output of another command."),
    "syntax": gettext_lazy("The command uses shell syntax that is not on the allowlist."),
    "time": gettext_lazy("“time” may be a program here."),
    "too-many": gettext_lazy("The line contains too many commands."),
    "unparsable": gettext_lazy("The command can’t be parsed."),
    "unread": gettext_lazy("The command could not be checked."),
    "write": gettext_lazy("A redirection writes to a file."),
    "writes-device": gettext_lazy("Writes to a disk device or the kernel."),
}


def gate_reason_text(code: str, text: str) -> dict[str, str | SafeString]:
    """Return the short translated sentence (empty in English) and the gate's sentence."""
    is_english = (get_language() or "en").startswith("en")
    return {"code": code, "short": "" if is_english else str(SHORT_REASONS.get(code, "")), "words": to_visible_html(text)}
