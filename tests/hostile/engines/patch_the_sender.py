"""Replaces the code that sends what was seen of it."""

ENDS = ["any"]


def attack(tensor):
    import harness.runs.child
    import msgspec

    harness.runs.child.encode_frame = lambda *_: b"\0\0\0\x01?"
    msgspec.msgpack.encode = lambda *_, **__: b""
