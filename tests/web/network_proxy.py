"""A TCP proxy between a browser and a server that can simulate a network failure."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class NetworkProxy:
    """`cut()` closes all connections and rejects new ones until `restore()`."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._connected = threading.Event()
        self._connected.set()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._connected.clear()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self._connected.set()

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                near, _ = self._listener.accept()
                if not self._connected.is_set():
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def network_proxy(to: int) -> Iterator[NetworkProxy]:
    proxy = NetworkProxy(to)
    try:
        yield proxy
    finally:
        proxy.close()
