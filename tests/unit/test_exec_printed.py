"""A command's output that is waiting to be stored: counted correctly, and bounded."""

from tools_app.exec.processes.output import MAX_PENDING_CHARACTERS, TAIL_CHARACTERS, OutputBuffer
from tools_app.exec.sandbox.types import OutputChunk


def test_output_pieces_carry_their_offset():
    printed = OutputBuffer()
    printed.feed(OutputChunk("stdout", b"one"))
    printed.feed(OutputChunk("stderr", b"two"))
    assert (printed.take_pending(), printed.take_pending()) == ([(0, "onetwo")], [])
    printed.feed(OutputChunk("stdout", b"three"))
    assert (printed.take_pending(), printed.end, printed.tail) == ([(6, "three")], 11, "onetwothree")


def test_character_split_across_chunks_is_joined():
    printed = OutputBuffer()
    whole = "é".encode()
    printed.feed(OutputChunk("stdout", whole[:1]))
    assert (printed.take_pending(), printed.end) == ([], 0)
    printed.feed(OutputChunk("stdout", whole[1:]))
    assert printed.take_pending() == [(0, "é")]
    printed.feed(OutputChunk("stdout", whole[:1]))
    printed.finish()
    assert printed.take_pending() == [(1, "\ufffd")]


def test_oldest_pending_output_is_dropped_and_still_counted():
    printed = OutputBuffer()
    for _ in range(3):
        printed.feed(OutputChunk("stdout", b"x" * MAX_PENDING_CHARACTERS))
    printed.feed(OutputChunk("stdout", b"end"))
    ((begin, text),) = printed.take_pending()
    assert (begin, len(text), text[-3:]) == (2 * MAX_PENDING_CHARACTERS + 3, MAX_PENDING_CHARACTERS, "end")
    assert (printed.end, len(printed.tail)) == (3 * MAX_PENDING_CHARACTERS + 3, TAIL_CHARACTERS)


def test_nul_character_is_replaced():
    printed = OutputBuffer()
    printed.feed(OutputChunk("stdout", b"a\0b"))
    assert printed.take_pending() == [(0, "a\ufffdb")]
