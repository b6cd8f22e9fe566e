"""Exceptions and prints that would repaint the terminal."""

ENDS = ["E\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\r\\x08\\u202eabc\\u2066"]


EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\u202eabc\u2066\ud800"


def attack(tensor):
    import os

    print(EVIL)
    os.write(1, b"\x1b[2J\xff")
    os.write(2, b"\x1bc\xfe")
    raise type("E" + EVIL[:-1], (Exception,), {})(EVIL)
