"""Convert a run's events to `chat` payloads: deltas of the answer, then final, aborted or error. Pure; the clock is a parameter.

Every delta repeats the whole text so far, so a client can miss any of them; throttling limits the traffic. No text is lost:
a pending delta is sent before the run's last payload.
"""

from typing import Any

Payload = dict[str, Any]

DELTA_INTERVAL_SECONDS = 0.075
# Events arrive every 20 ms while an answer streams, and the first one after the interval sends the newest text. `flush` is
# only due later, because at the end of the interval it would send text that is already old.
FLUSH_DELAY_SECONDS = 0.025
# Long answers are sent less often, so that no run exceeds this rate.
BYTES_PER_SECOND = 256 << 10

ERROR_KINDS = {"timeout": "timeout", "rate_limit": "rate_limit", "context_overflow": "context_length"}


class ChatEventBuilder:
    """Takes a run's events in order and returns the `chat` payloads that are due."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.text = ""
        self.due: float | None = None  # when `flush` should be called, if a delta is pending
        self.timed = False  # whether a timer for it is set
        self.ended = False
        self._message_id = ""
        self._message: Payload | None = None  # the last stored message
        self._seq = 0
        self._ts = 0
        self._sent = 0  # characters of the text that were sent
        self._sent_at = float("-inf")
        self._replace = False

    def feed(self, event: Payload, now: float) -> list[Payload]:
        self._seq, self._ts = event["seq"], event["ts"]
        data = event["data"]
        if event["stream"] == "assistant":
            return self._assistant(data, now)
        if event["stream"] == "lifecycle" and data["phase"] in ("end", "error"):
            self.ended = True
            last = self._end(data) if data["phase"] == "end" else self._error(data)
            return [*self.flush(now), last]
        return []

    def catch_up(self, event: Payload) -> None:
        """Feed an event whose payloads need not be sent."""
        self.feed(event, float("-inf"))
        self._sent, self._replace, self.due = len(self.text), False, None

    def flush(self, now: float) -> list[Payload]:
        """Return the pending delta, if any."""
        if self.due is None:
            return []
        self.due = None
        return [self._delta(now)]

    def _assistant(self, data: Payload, now: float) -> list[Payload]:
        if data.get("final"):
            self._message = data["message"]
            return []
        if data.get("reset"):
            self._begin(data["messageId"])
            return [self._delta(now)] if self._replace else []
        if data["messageId"] != self._message_id:
            self._begin(data["messageId"])
        self.text = self.text[: data["offset"]] + data["delta"]
        pause = max(DELTA_INTERVAL_SECONDS, len(self.text) / BYTES_PER_SECOND)
        if now >= self._sent_at + pause:
            return [self._delta(now)]
        if self.due is None:
            self.due = self._sent_at + pause + FLUSH_DELAY_SECONDS
        return []

    def _begin(self, message_id: str) -> None:
        """Start another message, or another attempt at the same one. The next delta replaces what clients show."""
        self._replace = self._replace or self._sent > 0
        self._message_id, self._message, self.text, self._sent = message_id, None, "", 0

    def _delta(self, now: float) -> Payload:
        payload = {**self._head("delta"), "deltaText": self.text[self._sent :], "message": self._text_message(self.text)}
        if self._replace:
            payload["replace"] = True
        self._sent, self._sent_at, self._replace, self.due = len(self.text), now, False, None
        return payload

    def _end(self, data: Payload) -> Payload:
        if data.get("aborted"):
            payload = {**self._head("aborted"), "stopReason": data.get("stopReason") or "rpc"}
            message = self._message or (self._text_message(self.text) if self.text else None)
            return {**payload, "message": message} if message else payload
        payload = self._head("final")
        if self._message:
            payload["message"] = self._message
        if usage := data.get("usage") or (self._message or {}).get("usage"):
            payload["usage"] = usage
        payload["stopReason"] = data.get("stopReason") or (self._message or {}).get("stopReason") or "stop"
        return payload

    def _error(self, data: Payload) -> Payload:
        kind = data.get("kind") or "unknown"
        return {
            **self._head("error"),
            "errorMessage": data.get("error") or "the run failed",
            "errorKind": ERROR_KINDS.get(kind, "unknown"),
            "errorDetail": {"failoverReason": kind},
        }

    def _head(self, state: str) -> Payload:
        return {"runId": self.run_id, "seq": self._seq, "state": state}

    def _text_message(self, text: str) -> Payload:
        return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": self._ts}
