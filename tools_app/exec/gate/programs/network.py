"""Argument rules of network clients: plain requests, with output to the workspace.

Settings files in the home directory can change what these programs do. The environment makes wget ignore them; curl and rsync
need approval if such a file exists.
"""

import re

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.invocation import ProgramCall
from tools_app.exec.gate.shell.words import Word

register_reasons(
    {
        "curl.sends_file": gettext_noop("{option} would send or read a file"),
        "curl.writes_file": gettext_noop("{option} would write a file"),
        "curl.unknown_data": gettext_noop("what {option} sends is only known at run time"),
        "network.url": gettext_noop("{url} is not a plain http URL"),
        "rsync.remote": gettext_noop("the source or destination may be remote, so another program (such as ssh) would be started"),
        "docker.command": gettext_noop("it starts programs outside the sandbox, or changes what runs there"),
    }
)

CURL = """-s -S -L -f -i -I -v -k -g -4 -6 -G -O -J -R -# -H: -X: -d: -o:> -A: -e: -m: -r: -u: -w: -b: --silent --show-error
    --location --fail --fail-with-body --include --head --verbose --insecure --globoff --get --remote-name --compressed
    --header= --request= --data= --data-raw= --data-urlencode= --json= --output=> --user-agent= --referer= --max-time=
    --connect-timeout= --retry= --retry-delay= --range= --user= --write-out= --url= --http1.1 --http2 --progress-bar
    --no-progress-meter --version --create-dirs --max-redirs= --cookie="""
WGET = """-q -v -c -N -S -O:> -P:> -T: -t: -U: -nc -nv -nd --quiet --no-verbose --continue --timestamping --spider --timeout=
    --tries= --output-document=> --directory-prefix=> --user-agent= --header= --no-check-certificate --no-clobber
    --server-response --version --show-progress"""
RSYNC = """-a -v -r -n -u -t -p -o -g -l -L -c -q -h -i -x -P -R -W -z -0 --archive --verbose --recursive --dry-run --update
    --times --perms --links --checksum --quiet --delete --delete-after --delete-excluded --exclude= --exclude-from=
    --include= --progress --stats --partial --human-readable --itemize-changes --ignore-existing --existing --size-only
    --one-file-system --version --max-size= --info="""
URL_PATTERN = re.compile(r"(?:https?://)?[A-Za-z0-9\[][^\s@{}\[\]]*", re.IGNORECASE)


def check_curl(call: ProgramCall) -> None:
    call.access_hints.append("network")
    found = call.read(CURL)
    call.check_home_settings(".curlrc", ".config/curlrc")
    for name in ("-d", "--data", "--json", "--data-urlencode", "-H", "--header", "-w", "--write-out", "-b", "--cookie"):
        for value in found.given.get(name, []):
            if (value.text or value.lead).startswith("@") or (name in ("--data-urlencode",) and "@" in (value.text or "@")):
                call.doubt(Reason("curl.sends_file", option=name))
            if "%output" in (value.text or ""):
                call.doubt(Reason("curl.writes_file", option=name))
            if value.text is None and not value.lead:
                call.doubt(Reason("curl.unknown_data", option=name))
    _check_urls(call, [*found.operands, *found.given.get("--url", [])])
    if found.has("-O", "--remote-name"):
        call.write(Word(text=".", lead="."))


def check_wget(call: ProgramCall) -> None:
    call.access_hints.append("network")
    found = call.read(WGET)
    _check_urls(call, found.operands)
    if not found.has("-O", "--output-document", "-P", "--directory-prefix", "--spider", "--version"):
        call.write(Word(text=".", lead="."))


def _check_urls(call: ProgramCall, words: list[Word]) -> None:
    for word in words:
        text = word.text if word.text is not None else word.lead
        if not URL_PATTERN.match(text) or "://" in text.removeprefix("http://").removeprefix("https://"):
            call.doubt(Reason("network.url", url=word.shown))


def check_rsync(call: ProgramCall) -> None:
    """Check that rsync copies between two local paths. For a remote path, it starts ssh."""
    found = call.read(RSYNC)
    call.check_home_settings(".popt")  # may define option aliases and programs to run instead
    for operand in found.operands:
        if ":" in (operand.text if operand.text is not None else operand.lead) or (operand.text is None and not operand.local):
            call.doubt(Reason("rsync.remote"))
    if found.operands:
        call.write(found.operands[-1])
        if not found.operands[-1].single:
            call.doubt(Reason("program.last_operand"))


def check_docker(call: ProgramCall) -> None:
    found = call.read(
        """-a -q -n: -f --all --quiet --tail= --since= --no-trunc --format= --filter= --version -v --follow -l --latest -t"""
    )
    first = found.texts()[0] if found.operands else None
    if first not in ("ps", "images", "logs", "version", "info", "stats", "port", "inspect") and not found.has("--version", "-v"):
        call.doubt(Reason("docker.command"))
