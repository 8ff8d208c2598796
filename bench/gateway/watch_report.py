"""What one watching connection received of a run: lags, gaps and losses, found in the kept bytes."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import orjson

from bench.gateway.client import Frame
from bench.gateway.figures import Result, milliseconds
from bench.gateway.runs import StampReader, delta_text
from bench.gateway.websocket import TEXT, cut_frames


@dataclass
class Stream:
    """The text events of one kind, `agent` or `chat`."""

    events: int = 0
    newest: list[float] = field(default_factory=list)  # lag of the youngest token of each event
    tokens: list[float] = field(default_factory=list)  # lag of every token
    stamps: StampReader = field(default_factory=StampReader)


@dataclass
class Watched:
    frames: int = 0
    size: int = 0  # bytes
    seq_gaps: int = 0  # the connection's own numbering
    run_seq_gaps: int = 0  # the numbering of the run's events
    finals: int = 0
    ends: int = 0
    agent: Stream = field(default_factory=Stream)
    chat: Stream = field(default_factory=Stream)

    @classmethod
    def of(cls, chunks: Sequence[tuple[float, bytes]], run_id: str) -> "Watched":
        watched = cls()
        data = b"".join(chunk for _, chunk in chunks)
        ends = list(accumulate(len(chunk) for _, chunk in chunks))
        last_seq = last_run_seq = None
        for opcode, begin, end in cut_frames(data):
            if opcode != TEXT:
                continue
            arrived = chunks[bisect_left(ends, end)][0]  # with the chunk that brought its last byte
            watched.frames += 1
            watched.size += end - begin
            frame = orjson.loads(data[begin:end])
            if (seq := frame.get("seq")) is not None:
                watched.seq_gaps += last_seq is not None and seq != last_seq + 1
                last_seq = seq
            payload = frame.get("payload")
            if frame.get("type") != "event" or not isinstance(payload, dict) or payload.get("runId") != run_id:
                continue
            if frame["event"] == "agent":
                watched.run_seq_gaps += last_run_seq is not None and payload["seq"] != last_run_seq + 1
                last_run_seq = payload["seq"]
            watched._take(frame, payload, arrived)
        return watched

    def _take(self, frame: Frame, payload: Frame, arrived: float) -> None:
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


def summary(all_watched: Sequence[Watched], tokens: int) -> Result:
    result: Result = {
        "clients": len(all_watched),
        "clients_with_final": sum(watched.finals == 1 for watched in all_watched),
        "clients_with_end": sum(watched.ends == 1 for watched in all_watched),
        "seq_gaps": sum(watched.seq_gaps for watched in all_watched),
        "run_seq_gaps": sum(watched.run_seq_gaps for watched in all_watched),
        "frames": sum(watched.frames for watched in all_watched),
        "mbytes": round(sum(watched.size for watched in all_watched) / 1e6, 2),
    }
    for kind in ("agent", "chat"):
        streams: list[Stream] = [getattr(watched, kind) for watched in all_watched]
        result[kind] = {
            "events_per_client": round(sum(stream.events for stream in streams) / max(len(streams), 1), 1),
            "lag_ms": milliseconds(lag for stream in streams for lag in stream.newest),
            "token_lag_ms": milliseconds(lag for stream in streams for lag in stream.tokens),
            "clients_missing_text": sum(len(stream.tokens) != tokens for stream in streams),
        }
    return result
