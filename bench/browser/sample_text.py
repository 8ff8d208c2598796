"""Sample answers with headings, lists, tables and code, as models write them.

The fake model (model.py) answers the prompt "Write 2000 words at 100 a second." with that many words at that pace.
"""

import datetime as dt
import io
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.llm.providers.scripted import says
from bench.scripted_model import Reply, reply

if TYPE_CHECKING:
    from clawsite.accounts.models import User

PROMPT = re.compile(r"Write (\d+) words at (\d+) a second\.")

SECTION = """\
## {n}. How the queue keeps its order

A worker **claims** a run with one statement, and only the worker with the *lease* may write. See
[the notes](https://example.org/notes) and `sessions_app/runs/queue.py` for what happens when it crashes in between.

- A lease lasts 20 seconds and is renewed every 5.
- The second worker finds the row already claimed:
  - it tries another session,
  - or sleeps until it is notified.
- Nothing is lost, because every step is stored before the next one starts.

| step | rows | milliseconds | note |
|---|---:|---:|---|
| claim | 1 | 0.4 | one statement |
| append | 3 | 1.1 | events, entry, counters |
| finish | 2 | 0.7 | in the same transaction |

```python
def claim(worker: str, now: float) -> Run | None:
    \"\"\"The oldest run whose session is free, or None.\"\"\"
    for row in candidates(limit=16):
        if taken(row.session_id):
            continue
        run = Run.objects.filter(pk=row.pk, status="accepted").update(worker=worker, lease_until=now + 20.0)
        if run:
            return Run.objects.get(pk=row.pk)
    return None
```

1. The lane is locked.
2. Its sessions are counted.
3. The oldest one is selected.

> The order within a session is kept even when two workers race, because the lock is the session's.

"""


def markdown(words: int) -> str:
    """Return this many words of the sample text."""
    text = "".join(SECTION.format(n=n) for n in range(1, words // len(SECTION.split()) + 2))
    return "".join(itertools.islice(re.findall(r"\s*\S+", text), words))


def build_prompt(words: int, pace: int) -> str:
    return f"Write {words} words at {pace} a second."


def reply_to(prompt: str) -> Reply:
    match = PROMPT.fullmatch(prompt)
    if match is None:
        raise ValueError(f"unknown prompt: {prompt!r}")
    return reply(says(markdown(int(match[1]))), pace=1 / int(match[2]))


def create_session(user: "User", name: str, messages: int) -> tuple[str, str]:
    """Create a session with this many messages; every other one is an answer of 150 words. Return its key and last message ID."""
    from sessions_app.sessions.transfer import import_transcript

    key = f"agent:main:{name}"
    import_transcript(user, key, io.BytesIO(b"".join(_lines(key, name, messages))))
    return key, f"{name}-{messages}"


def _lines(key: str, name: str, messages: int) -> Iterator[bytes]:
    from sessions_app.sessions.jsonl import JsonlEntry, TranscriptHeader, format_entry, format_header

    started = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=messages)
    yield format_header(TranscriptHeader(key=key, agent="main", session_id="", created_at=started, title=f"{messages} messages"))
    text, parent = markdown(150), None
    for number in range(1, messages + 1):
        role = "assistant" if number % 2 == 0 else "user"
        content = text if role == "assistant" else f"Question {number}: what happens when two workers race for the same session?"
        meta = {"model": "openai/fake-1", "usage": {"input": 900, "output": 150}} if role == "assistant" else {}
        moment = started + dt.timedelta(minutes=number)
        entry = JsonlEntry("message", f"{name}-{number}", moment, role, [{"type": "text", "text": content}], content, meta)
        yield format_entry(entry, parent)
        parent = entry.id
