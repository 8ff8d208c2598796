"""The chats in the screenshots: prompts and the model's answers. All data is fictional."""

from agents.llm.providers.scripted import calls, fails, says, thinks
from bench.scripted_model import Reply, reply

OUTAGES = """\
date,service,minutes,orders_lost,cause
2026-10-02,checkout,14,212,expired certificate
2026-10-06,search,41,88,index rebuilt at noon
2026-10-13,checkout,37,640,connection pool exhausted
2026-10-13,accounts,9,12,connection pool exhausted
2026-10-21,images,55,0,bucket policy
2026-10-27,checkout,6,71,deploy rolled back
"""

WHICH = "Which outage in October cost us the most? The list is in outages.csv."
WHICH_ANSWER = """\
**Checkout on October 13** cost the most: 640 orders in 37 minutes, more than all the others combined.

| Service | Outages | Minutes | Orders lost |
|---|---:|---:|---:|
| checkout | 3 | 57 | **923** |
| search | 1 | 41 | 88 |
| accounts | 1 | 9 | 12 |
| images | 1 | 55 | 0 |

The longest outage, *images*, lost no orders, so duration alone is a poor measure here.
"""

SCRIPT = "Write a script that adds this up so we can run it every month."
SCRIPT_TEXT = '''\
"""Orders lost by service, most first:  python outages.py outages.csv"""

import csv
import sys
from collections import Counter

lost = Counter()
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(file):
        lost[row["service"]] += int(row["orders_lost"])

for service, orders in lost.most_common():
    print(f"{service:10} {orders:6,}")
'''
SCRIPT_ANSWER = f"""\
I saved it as `outages.py`. The main part:

```python
{SCRIPT_TEXT[SCRIPT_TEXT.index("lost =") :]}```
"""

POOL = "How large should the checkout connection pool be?"
POOL_ANSWER = """\
Start with how long requests hold a connection, not with what the database allows:

1. **Measure** how long a request holds its connection: in your case 40 ms at the median and 310 ms at the 99th percentile.
2. **Multiply** by your peak rate: 180 requests per second × 0.31 s ≈ 56 connections.
3. **Leave room** for deployments, when old and new processes overlap: × 1.5 ≈ 84.

So 20 was too low. With 84 connections and a timeout of 2 s, bursts wait instead of failing.
"""

NOTES = "Summarize October's outages in notes/october.md for the board."
NOTES_DENIED = """\
I couldn't write the file: the policy of this agent, *Helpdesk*, denies `write`. An operator can allow it. In the \
meantime, here is the text:

> In October, six outages lasted 162 minutes and cost 1,023 orders, 923 of them at checkout. Its connection pool will grow.
"""

CHANGED = "What changed in the shop since yesterday?"
SPACE = "My workspace is almost full. Can you free up some space?"

SLOW = "Go through all interviews and list the feature requests."
SLOW_ANSWER = "I have read 9 of 24 interviews so far. Seven people asked for PDF invoices. " * 30

REPLIES: dict[str, Reply] = {
    WHICH: reply(
        thinks(
            "The list is a file in the workspace, so I'll read it first. Cost could mean minutes or orders; the columns will "
            "show which data there is. I should mention both and say which one matters."
        )
        + calls("read", path="outages.csv"),
        says(WHICH_ANSWER),
        pace=0.03,
    ),
    SCRIPT: reply(calls("write", path="outages.py", content=SCRIPT_TEXT), says(SCRIPT_ANSWER)),
    POOL: reply(thinks("They had 20 connections. I already have the request times.") + says(POOL_ANSWER)),
    NOTES: reply(
        thinks("The board needs a short text. I'll read the list, then write the file. If I can't, I'll say so and show the text.")
        + calls("read", path="outages.csv"),
        calls("write", path="notes/october.md", content="# October\n\nSix outages, 162 minutes, 1,023 orders lost.\n"),
        says(NOTES_DENIED),
        pace=0.05,
    ),
    CHANGED: reply(
        says("I'll look at the commits first and save the list in `changes.txt`, so you can share it.")
        + calls("exec", command="git log --oneline --since=yesterday && git diff --stat HEAD~5 > changes.txt")
    ),
    SPACE: reply(
        says("`build/` can be rebuilt at any time. I'll check the sizes first, then remove it.")
        + calls("exec", command="du -sh * | sort -h && rm -rf build/")
    ),
    SLOW: reply(says(SLOW_ANSWER), pace=0.25),
    "Draft the release notes for 4.2": reply(says("New in 4.2: PDF invoices, a dark theme, and typo-tolerant search.")),
    "Plan the move to PostgreSQL": reply(
        says("Four steps: copy the data, replicate changes, compare for a week, switch over on a Sunday.")
    ),
    "What did the Berlin trip cost?": reply(
        says("€1,284.60 in total: €412.00 for trains, €596.60 for three nights, €276.00 for meals.")
    ),
    "Interview questions for a data engineer": reply(
        says("Ask about a pipeline that failed and how they noticed. Then have them design one.")
    ),
    "Write a welcome email in French": reply(says("Bonjour et bienvenue ! Votre compte est prêt.")),
    "Which tests are flaky?": reply(says("Two: `test_export_is_complete` and `test_two_tabs`. Both depend on timing.")),
    "Names for the meeting rooms": reply(says("Rivers: Elbe, Loire, Tagus, Vistula, and Danube for the largest room.")),
    "What is our refund policy?": reply(fails("auth", "Incorrect API key provided.", status=401)),
}


def reply_to(prompt: str) -> Reply:
    return REPLIES[prompt]
