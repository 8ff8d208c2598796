"""What a command printed and waits to be stored: nothing is counted wrong, and it never grows."""

from tools_app.exec.processes.output import TAIL, WAITING, Printed
from tools_app.exec.sandbox.types import Chunk


def test_pieces_say_where_they_belong():
    printed = Printed()
    printed.feed(Chunk("stdout", b"one"))
    printed.feed(Chunk("stderr", b"two"))
    assert (printed.take(), printed.take()) == ([(0, "onetwo")], [])
    printed.feed(Chunk("stdout", b"three"))
    assert (printed.take(), printed.end, printed.tail) == ([(6, "three")], 11, "onetwothree")


def test_a_character_that_comes_in_two_chunks_is_one():
    printed = Printed()
    whole = "é".encode()
    printed.feed(Chunk("stdout", whole[:1]))
    assert (printed.take(), printed.end) == ([], 0)
    printed.feed(Chunk("stdout", whole[1:]))
    assert printed.take() == [(0, "é")]
    printed.feed(Chunk("stdout", whole[:1]))
    printed.finish()
    assert printed.take() == [(1, "\ufffd")]


def test_what_nobody_takes_is_dropped_from_its_beginning_and_still_counted():
    printed = Printed()
    for _ in range(3):
        printed.feed(Chunk("stdout", b"x" * WAITING))
    printed.feed(Chunk("stdout", b"end"))
    ((begin, text),) = printed.take()
    assert (begin, len(text), text[-3:]) == (2 * WAITING + 3, WAITING, "end")
    assert (printed.end, len(printed.tail)) == (3 * WAITING + 3, TAIL)


def test_a_nul_is_not_stored():
    printed = Printed()
    printed.feed(Chunk("stdout", b"a\0b"))
    assert printed.take() == [(0, "a\ufffdb")]
