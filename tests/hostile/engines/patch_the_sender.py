"""Replaces the code that sends what was seen of it."""

ENDS = ["any"]


def attack(tensor):
    import harness.runs.job
    import harness.runs.protocol
    import harness.sandbox.child
    import harness.sandbox.frames
    import msgspec

    harness.sandbox.child.write_frame = harness.sandbox.frames.write_all = lambda *_: None
    harness.sandbox.frames.encode_frame = lambda *_: b"\0\0\0\x01?"
    harness.runs.job.encode_or_fail = harness.runs.protocol.encode_reply = lambda *_: None
    harness.runs.protocol._BYTES = {}
    msgspec.msgpack.encode = lambda *_, **__: b""
