"""Targets for the pages. Measurements without a limit are only reported, because they depend on the machine."""

from bench.promises import Promise

NEW, LONG, LONGEST, APPEND = "after_0", "after_200", "after_5000", "append"

PROMISES = (
    Promise("loading", ("plain", "fcp_ms", "p50"), "first paint: a line of plain text from the same server", "ms"),
    Promise("loading", ("cold", "fcp_ms", "p50"), "… chat with 200 messages, empty cache", "ms"),
    Promise("loading", ("cold", "times_plain"), "… × the plain page", "×", 3),
    Promise("loading", ("warm", "fcp_ms", "p50"), "… chat, cached files", "ms"),
    Promise("loading", ("cold", "last_message_ms", "p50"), "last message is shown, empty cache", "ms", 1000),
    Promise("loading", ("warm", "last_message_ms", "p50"), "… cached files", "ms", 1000),
    Promise("loading", ("cold", "kilobytes"), "first visit, transferred", "KB", 300),
    Promise("loading", ("cold", "requests"), "… requests", ""),
    Promise("loading", ("warm", "kilobytes"), "next visit, transferred", "KB"),
    Promise("streaming", (APPEND, "event_ms"), "one event, appended to a <pre>", "ms"),
    Promise("streaming", (NEW, "event_ms"), "one event, new chat", "ms"),
    Promise("streaming", (NEW, "times_append"), "… × the <pre>", "×"),
    Promise("streaming", (NEW, "busy_percent"), "main thread busy at 100 tokens/s, new chat", "%", 30),
    Promise("streaming", (LONG, "busy_percent"), "… after 200 messages", "%", 30),
    Promise("streaming", (LONGEST, "busy_percent"), "… after 5,000 messages", "%", 30),
    Promise("streaming", (NEW, "longest_task_ms"), "longest task (0: none over 50 ms), new chat", "ms", 100),
    Promise("streaming", (LONG, "longest_task_ms"), "… after 200 messages", "ms", 100),
    Promise("streaming", (LONGEST, "longest_task_ms"), "… after 5,000 messages", "ms", 100),
    Promise("streaming", (NEW, "layout_shift"), "layout shift while it streams (CLS), new chat", "", 0.1),
    Promise("streaming", (LONG, "layout_shift"), "… after 200 messages", "", 0.1),
    Promise("switching", ("shown_ms", "p50"), "switching to another chat with 200 messages", "ms", 300),
    Promise("switching", ("shown_ms", "p95"), "… p95", "ms"),
    Promise("memory", ("new", "heap_mb"), "heap of a new page", "MB"),
    Promise("memory", ("after_20_answers", "heap_mb"), "… after 20 answers", "MB"),
    Promise("memory", ("after_leaving", "heap_mb"), "… after leaving that chat", "MB"),
)
