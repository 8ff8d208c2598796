"""Options of a suite: the gateway to measure, and how."""

from dataclasses import dataclass, field
from typing import Protocol


class Launcher(Protocol):
    """Starts and stops the gateway, for suites that measure its start or kill it."""

    def start(self) -> list[int]:
        """Return the PIDs of the started processes, without their children."""
        ...

    def stop(self, *, kill: bool = False) -> None: ...


@dataclass
class Options:
    urls: list[str] = field(default_factory=lambda: ["ws://127.0.0.1:18789"])  # connections alternate between them
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
    pids: list[int] = field(default_factory=list)  # the gateway's processes; their children are found automatically
    # Fake model, watchers and database servers, which count neither as gateway nor as other load.
    helper_pids: list[int] = field(default_factory=list)
    launcher: Launcher | None = None
    settle: float = 8.0  # coldstart: seconds before idle memory is read
    watch: float = 30.0  # crash, approval: seconds to watch after the restart
    n: int | None = None  # samples; each suite has its own default
    levels: list[int] | None = None
    gap: float = 0.0  # overhead: pause between runs
    delay_ms: float = 10.0  # fanout: the model's pause between deltas
    own_connection: bool = False  # throughput: one connection per session
    subscribe: bool = False  # fanout: sessions.messages.subscribe first
    requests: int = 50  # http: number of concurrent requests
    history: int = 1000
    fault_timeout: float = 200.0
    timeout: float = 300.0

    @property
    def http_url(self) -> str:
        return self.urls[0].replace("ws", "http", 1).removesuffix("/ws").rstrip("/")
