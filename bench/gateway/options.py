"""What a suite is told about the gateway it measures."""

from dataclasses import dataclass, field
from typing import Protocol


class Launcher(Protocol):
    """Starts and ends the gateway, for suites that measure a start or survive a kill."""

    def start(self) -> list[int]:
        """-> pids of what was started, without their children."""
        ...

    def stop(self, *, kill: bool = False) -> None: ...


@dataclass
class Options:
    urls: list[str] = field(default_factory=lambda: ["ws://127.0.0.1:18789"])  # connections are spread over them in turn
    token: str = "bench-token"
    llm: str = "http://127.0.0.1:18080"
    protocol: int = 4
    client_id: str = "gateway-client"
    client_mode: str = "backend"
    caps: list[str] = field(default_factory=lambda: ["tool-events"])
    device: bool = False  # send a signed ed25519 identity
    agent: str = "main"
    method: str = "chat.send"
    http_model: str = "openclaw"
    pids: list[int] = field(default_factory=list)  # the gateway's own processes; their children are found
    helper_pids: list[int] = field(
        default_factory=list
    )  # fake model, watchers, database servers: neither the gateway nor "other" load
    launcher: Launcher | None = None
    settle: float = 8.0  # coldstart: seconds before idle memory is read
    watch: float = 30.0  # crash, approval: seconds to watch after the restart
    n: int | None = None  # samples; each suite has a default of its own
    levels: list[int] | None = None
    gap: float = 0.0  # overhead: pause between runs
    delay_ms: float = 10.0  # fanout: the model's pause between deltas
    own_connection: bool = False  # throughput: one connection per session
    subscribe: bool = False  # fanout: sessions.messages.subscribe first
    requests: int = 50  # http: requests of the parallel part
    history: int = 1000
    fault_timeout: float = 200.0
    timeout: float = 300.0

    @property
    def http_url(self) -> str:
        return self.urls[0].replace("ws", "http", 1).removesuffix("/ws").rstrip("/")
