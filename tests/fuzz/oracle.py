"""Let bash determine what a line runs: PATH is empty, and the handler for unknown commands records every requested name.

Each line is run twice in a separate bash and directory: once all commands succeed, once all fail. Everything runs in a sandbox
without network or privileges, which can only write to a temporary directory.
"""

import shlex
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

# Sixty calls end an endless loop; a loop without commands ends at its CPU time limit.
HANDLER = """
ulimit -t 1 -f 64 -v 4000000
command_not_found_handle() {
  echo "$1" >> "$ORACLE_LOG"
  seen=0; while read -r _; do seen=$((seen+1)); done < "$ORACLE_LOG"
  if ((seen > 60)); then kill -9 $$; fi
  return "$ORACLE_STATUS"
}
PATH=/nowhere
"""
DRIVER = """
cd /oracle/lines
for number in *; do
  IFS= read -r -d '' line < "$number"
  for status in 0 1; do
    cp -r /oracle/files "/oracle/runs/$number.$status"
    cd "/oracle/runs/$number.$status"
    BASH_ENV=/oracle/handler ORACLE_LOG="/oracle/logs/$number" ORACLE_STATUS=$status \
      timeout -s KILL 3 bash --norc --noprofile -c "$line" </dev/null >/dev/null 2>&1 &
    wait $! 2>/dev/null
    cd /oracle/lines
  done
done
"""
SANDBOX = shlex.split(
    "bwrap --unshare-user --unshare-all --disable-userns --die-with-parent --new-session --cap-drop ALL --clearenv"
    " --setenv PATH /usr/bin --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64"
    " --dev /dev --proc /proc --tmpfs /tmp"
)


@lru_cache(maxsize=1)
def trouble() -> str:
    """Return why there is no sandbox here; empty if there is one."""
    try:
        done = subprocess.run([*SANDBOX, "bash", "-c", "type cp timeout"], capture_output=True, text=True, timeout=30)
    except OSError as error:
        return str(error)
    return done.stderr if done.returncode else ""


def what_ran(lines: Sequence[str], files: Path, scratch: Path) -> list[set[str]]:
    """Return for each line the names that bash looked up, in a copy of `files`."""
    work = scratch / "oracle"
    for name in ("lines", "logs", "runs"):
        (work / name).mkdir(parents=True)
    (work / "handler").write_text(HANDLER)
    (work / "files").mkdir()
    for file in files.iterdir():
        if file.is_dir():
            (work / "files" / file.name).mkdir()
        else:
            (work / "files" / file.name).write_bytes(file.read_bytes())
    for number, line in enumerate(lines):
        (work / "lines" / f"{number:06}").write_bytes(line.encode())
    command = [*SANDBOX, "--bind", str(work), "/oracle", "bash", "--norc", "--noprofile", "-c", DRIVER]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60 + 8 * len(lines))
    return [_names(work / "logs" / f"{number:06}") for number in range(len(lines))]


def _names(log: Path) -> set[str]:
    return set(log.read_text(errors="replace").splitlines()) if log.exists() else set()
