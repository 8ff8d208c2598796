"""What is said in the pictures: questions, and how the model answers them. Data; nothing in it is about anybody."""

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

WHICH = "Which of October's outages cost us most? The list is in outages.csv."
WHICH_ANSWER = """\
**Checkout on 13 October** cost most: 640 orders in 37 minutes, more than all the others together.

| Service | Outages | Minutes | Orders lost |
|---|---:|---:|---:|
| checkout | 3 | 57 | **923** |
| search | 1 | 41 | 88 |
| accounts | 1 | 9 | 12 |
| images | 1 | 55 | 0 |

The longest outage, *images*, lost no order: minutes alone are a poor measure here.
"""

SCRIPT = "Write a script that adds this up, so that we can run it each month."
SCRIPT_TEXT = '''\
"""Orders lost by service, dearest first:  python outages.py outages.csv"""

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
I saved it as `outages.py`. The part that counts:

```python
{SCRIPT_TEXT[SCRIPT_TEXT.index("lost =") :]}```
"""

POOL = "How large should the connection pool of checkout be?"
POOL_ANSWER = """\
Start from what a request holds, not from what the database allows:

1. **Measure** how long a request keeps its connection. Yours keep it for 40 ms at the median and 310 ms at the 99th percentile.
2. **Multiply** by the busiest second: 180 requests × 0.31 s ≈ 56 connections.
3. **Leave room** for a deploy, when old and new processes overlap: × 1.5 ≈ 84.

So 20 was too few. With 84 connections and a time-out of 2 s a burst waits instead of failing.
"""

NOTES = "Put the outages of October into notes/october.md, for the board."
NOTES_REFUSED = """\
I was not allowed to write the file: the policy of this agent, *Helpdesk*, refuses `write`. An operator can allow it. Until \
then, here is the text:

> In October six outages lasted 162 minutes and lost 1,023 orders, 923 of them at the checkout. Its connection pool will grow.
"""

CHANGED = "What has changed in the shop since yesterday?"
SPACE = "My workspace is nearly full. Can you make room?"

SLOW = "Go through all interviews and list what people asked for."
SLOW_ANSWER = "So far I have read nine of twenty-four interviews. Seven people asked for invoices as PDF. " * 30

STORY: dict[str, Reply] = {
    WHICH: reply(
        thinks(
            "The list is a file in the workspace, so I read it first. Cost can mean minutes or orders; the columns will tell "
            "which of them is there. I should name both and say which one matters."
        )
        + calls("read", path="outages.csv"),
        says(WHICH_ANSWER),
        pace=0.03,
    ),
    SCRIPT: reply(calls("write", path="outages.py", content=SCRIPT_TEXT), says(SCRIPT_ANSWER)),
    POOL: reply(thinks("They had 20 connections. I have the request times from before.") + says(POOL_ANSWER)),
    NOTES: reply(
        thinks("The board wants a short text. I read the list, then write the file. If I may not, I say so and give the text.")
        + calls("read", path="outages.csv"),
        calls("write", path="notes/october.md", content="# October\n\nSix outages, 162 minutes, 1,023 orders lost.\n"),
        says(NOTES_REFUSED),
        pace=0.05,
    ),
    CHANGED: reply(
        says("I look at the commits first and keep the list in `changes.txt`, so that you can pass it on.")
        + calls("exec", command="git log --oneline --since=yesterday && git diff --stat HEAD~5 > changes.txt")
    ),
    SPACE: reply(
        says("`build/` can be made again at any time. I measure what is there, then remove it.")
        + calls("exec", command="du -sh * | sort -h && rm -rf build/")
    ),
    SLOW: reply(says(SLOW_ANSWER), pace=0.25),
    "Draft the release notes for 4.2": reply(
        says("Three things are new in 4.2: invoices as PDF, a dark theme, and search that forgives typing errors.")
    ),
    "Plan the move to PostgreSQL": reply(says("In four steps: copy, follow the changes, compare for a week, switch on a Sunday.")),
    "What did the Berlin trip cost?": reply(
        says("€ 1,284.60 in all: 412.00 for trains, 596.60 for three nights, 276.00 for meals.")
    ),
    "Questions for the data engineer's interview": reply(
        says("Ask for a pipeline that failed them, and how they noticed. Then let them draw one.")
    ),
    "Welcome mail in French, please": reply(says("Bonjour et bienvenue ! Votre compte est prêt.")),
    "Which tests fail now and then?": reply(says("Two: `test_export_is_complete` and `test_two_tabs`. Both wait for a clock.")),
    "Names for the meeting rooms": reply(says("Rivers: Elbe, Loire, Tagus, Vistula. The largest room is the Danube.")),
    "What is our refund policy?": reply(fails("auth", "Incorrect API key provided.", status=401)),
}


def reply_to(question: str) -> Reply:
    return STORY[question]
