"""A gradient of records whose fields partly overlap."""

ENDS = ["TypeError"]


def attack(tensor):
    import numpy as np

    kind = np.dtype({"names": ["a", "b"], "formats": ["f8", "f4"], "offsets": [0, 4]})
    tensor.parent.__class__.grad = property(lambda _: np.zeros(3, kind), lambda *_: None)
