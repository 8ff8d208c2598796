"""What a command printed and nobody has taken yet, as text: bounded, with the place of every piece. Pure."""

from tools_app.execution.output import LiveText
from tools_app.execution.values import Chunk

WAITING = 128 * 1024  # characters that wait to be taken, and so the longest piece
TAIL = 8 * 1024  # characters of the end, always at hand


class Printed:
    """Both streams as they come. `end` counts every character, also of what was dropped for want of a taker."""

    def __init__(self) -> None:
        self.end = 0
        self.tail = ""
        self._text = LiveText()
        self._waiting = ""

    def feed(self, chunk: Chunk) -> None:
        self._add(self._text.feed(chunk))

    def finish(self) -> None:
        """Whatever is left of a character that was never completed."""
        self._add(self._text.flush("stdout") + self._text.flush("stderr"))

    def take(self) -> list[tuple[int, str]]:
        """What was printed since the last time, with its place; of much, the last WAITING characters."""
        taken, self._waiting = self._waiting, ""
        return [(self.end - len(taken), taken)] if taken else []

    def _add(self, text: str) -> None:
        text = text.replace("\0", "\ufffd")  # no database stores it
        self.end += len(text)
        self._waiting = (self._waiting + text)[-WAITING:]
        self.tail = (self.tail + text)[-TAIL:]
