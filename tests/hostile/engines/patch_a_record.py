"""Replaces methods of the records that hold what was observed."""

ENDS = ["any"]


def attack(tensor):
    import harness.core.run
    import harness.pages.probe
    import json
    import struct

    for record in (harness.core.run.Run, harness.core.run.Array, harness.pages.probe.Probe):
        record.__init__ = record.__eq__ = record.__hash__ = lambda *_, **__: False
    struct.pack = json.dumps = struct.unpack = None
    harness.core.run.Run.__reduce__ = None
