"""Find lags, gaps and losses of a run in the bytes that watching connections received."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import orjson

from bench.gateway.client import Frame
from bench.gateway.figures import Result, milliseconds
from bench.gateway.runs import StampReader, delta_text
from bench.gateway.websocket import TEXT, split_frames


@dataclass
class Stream:
    """The text events of one kind, `agent` or `chat`."""

    events: int = 0
    newest: list[float] = field(default_factory=list)  # lag of the newest token of each event
    tokens: list[float] = field(default_factory=list)  # lag of every token
    stamps: StampReader = field(default_factory=StampReader)


@dataclass
class WatchReport:
    frames: int = 0
    size: int = 0  # bytes
    seq_gaps: int = 0  # in the connection's sequence numbers
    run_seq_gaps: int = 0  # in the run's sequence numbers
    finals: int = 0
    ends: int = 0
    agent: Stream = field(default_factory=Stream)
    chat: Stream = field(default_factory=Stream)

    @classmethod
    def from_chunks(cls, chunks: Sequence[tuple[float, bytes]], run_id: str) -> "WatchReport":
        report = cls()
        data = b"".join(chunk for _, chunk in chunks)
        ends = list(accumulate(len(chunk) for _, chunk in chunks))
        last_seq = last_run_seq = None
        for opcode, begin, end in split_frames(data):
            if opcode != TEXT:
                continue
            arrived = chunks[bisect_left(ends, end)][0]  # the time of the chunk with its last byte
            report.frames += 1
            report.size += end - begin
            frame = orjson.loads(data[begin:end])
            if (seq := frame.get("seq")) is not None:
                report.seq_gaps += last_seq is not None and seq != last_seq + 1
                last_seq = seq
            payload = frame.get("payload")
            if frame.get("type") != "event" or not isinstance(payload, dict) or payload.get("runId") != run_id:
                continue
            if frame["event"] == "agent":
                report.run_seq_gaps += last_run_seq is not None and payload["seq"] != last_run_seq + 1
                last_run_seq = payload["seq"]
            report._add(frame, payload, arrived)
        return report

    def _add(self, frame: Frame, payload: Frame, arrived: float) -> None:
        if delta := delta_text(frame):
            kind, text = delta
            stream = self.agent if kind == "agent" else self.chat
            if lags := [arrived - stamp for stamp in stream.stamps.feed(text)]:
                stream.events += 1
                stream.newest.append(lags[-1])
                stream.tokens += lags
        elif frame["event"] == "chat" and payload.get("state") == "final":
            self.finals += 1
        elif payload.get("stream") == "lifecycle" and payload["data"].get("phase") == "end":
            self.ends += 1


def summary(reports: Sequence[WatchReport], tokens: int) -> Result:
    result: Result = {
        "clients": len(reports),
        "clients_with_final": sum(report.finals == 1 for report in reports),
        "clients_with_end": sum(report.ends == 1 for report in reports),
        "seq_gaps": sum(report.seq_gaps for report in reports),
        "run_seq_gaps": sum(report.run_seq_gaps for report in reports),
        "frames": sum(report.frames for report in reports),
        "mbytes": round(sum(report.size for report in reports) / 1e6, 2),
    }
    for kind in ("agent", "chat"):
        streams: list[Stream] = [getattr(report, kind) for report in reports]
        result[kind] = {
            "events_per_client": round(sum(stream.events for stream in streams) / max(len(streams), 1), 1),
            "lag_ms": milliseconds(lag for stream in streams for lag in stream.newest),
            "token_lag_ms": milliseconds(lag for stream in streams for lag in stream.tokens),
            "clients_missing_text": sum(len(stream.tokens) != tokens for stream in streams),
        }
    return result
