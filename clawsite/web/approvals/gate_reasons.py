"""Why a command is asked about, in the reader's language. The gate writes its sentences in English, with names and files in them:
on a page in another language a short sentence of ours stands before it. What the gate says is shown in every language.
"""

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy

from clawsite.web.visible_text import seen

SHORT: dict[str, str | Promise] = {
    "arguments": gettext_lazy("It is not known that these arguments are harmless."),
    "arithmetic": gettext_lazy("A calculation may run text as a command."),
    "ask-always": gettext_lazy("Every command is asked about here."),
    "asked-anew": gettext_lazy("It was approved before, but that does not count any more."),
    "assignment": gettext_lazy("A variable may change what runs."),
    "blank": gettext_lazy("There is no command in the line."),
    "builtin": gettext_lazy("A command of the shell may change or evaluate something."),
    "bytes": gettext_lazy("The line is not text that can be read."),
    "changes-kernel": gettext_lazy("It loads code into the kernel."),
    "changes-rights": gettext_lazy("It changes the rights of whole directories."),
    "characters": gettext_lazy("The line has characters that nobody sees."),
    "command-name": gettext_lazy("Which program runs is known only when it runs."),
    "continuation": gettext_lazy("A continued line may hide a command."),
    "destroys-files": gettext_lazy("It deletes or moves what must not be lost."),
    "expansion": gettext_lazy("Part of the line is replaced when it runs."),
    "files": gettext_lazy("It follows files that may change what it does."),
    "fork-bomb": gettext_lazy("It starts itself without end."),
    "glob": gettext_lazy("A pattern may match a file that is taken for an option."),
    "inline-code": gettext_lazy("It runs code that is not a file that was looked at."),
    "input": gettext_lazy("What a program makes of its input is not known beforehand."),
    "isolation": gettext_lazy("This host cannot shut it in as the rules want."),
    "kills-everything": gettext_lazy("It ends every process."),
    "leaves-sandbox": gettext_lazy("It gets out of the sandbox."),
    "makes-filesystem": gettext_lazy("It erases a disk."),
    "network": gettext_lazy("It opens a network connection."),
    "no-sandbox": gettext_lazy("Without a sandbox every command is asked about."),
    "not-allowlisted": gettext_lazy("A program is not on the list of allowed ones."),
    "not-found": gettext_lazy("A program was not found."),
    "not-trusted": gettext_lazy("A program may be changed by others."),
    "other-arguments": gettext_lazy("A program is allowed with other arguments only."),
    "outside": gettext_lazy("A program outside asks for it."),
    "own-guard": gettext_lazy("It changes Clawsite itself. Only people do that."),
    "redirect": gettext_lazy("Where a redirection goes is not certain."),
    "runs-download": gettext_lazy("It runs what it loads from the network."),
    "second-opinion": gettext_lazy("Two readings of the line do not agree."),
    "security-deny": gettext_lazy("Running commands is switched off here."),
    "size": gettext_lazy("The line is too long."),
    "stops-machine": gettext_lazy("It stops or restarts the machine."),
    "substitution": gettext_lazy("The line uses the output of another command."),
    "syntax": gettext_lazy("The line uses shell syntax that is not on the list."),
    "time": gettext_lazy("The word “time” may be a program here."),
    "too-many": gettext_lazy("The line has too many commands."),
    "unparsable": gettext_lazy("The line cannot be read as a command."),
    "unread": gettext_lazy("The line could not be examined."),
    "write": gettext_lazy("A redirection writes a file."),
    "writes-device": gettext_lazy("It writes onto a disk or into the kernel."),
}


def reason_words(code: str, words: str) -> dict[str, str | SafeString]:
    """-> our short sentence, empty on an English page, and the gate's own."""
    is_english = (get_language() or "en").startswith("en")
    return {"code": code, "short": "" if is_english else str(SHORT.get(code, "")), "words": seen(words)}
