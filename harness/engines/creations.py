"""The leaves that a probe creates itself: its layers' weights, and tensors that it makes.

They are numbered in the order of creation, and named by what a reader sees: `Linear[0].weight` is
the weight of the first Linear, `tensor[0]` the first tensor that the probe's own text makes. The
names are the same on every engine, so that two runs can be compared. What the engine's code makes
for itself (a state of zeros, a copy for a recomputation) has no name, and is not recorded.

The engine needs no changes: a wrapper around the constructor of its tensors, and around the
assignment of attributes of its layers, exists only while a probe runs. PyTorch has a hook for its
layers. An adapter's own layers report their weights themselves.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from harness.core.run import NumericArray


class Creations:
    """The leaves that one run of a probe creates.

    `values` fixes the data of some of them, by name, whatever the probe stores in them.
    """

    def __init__(self, path: str, values: Mapping[str, NumericArray] | None = None) -> None:
        self.path, self.values = path, dict(values or {})
        self.leaves: dict[str, Any] = {}
        """By name, in the order of creation."""
        self.unreadable: set[str] = set()
        """The names of leaves whose gradients cannot be read."""
        self._made: dict[int, Any] = {}
        """Tensors by their id; the reference keeps another tensor from getting the same id."""
        self._names: dict[int, str] = {}
        self._owners: dict[str, list[Any]] = {}
        self._tensors = 0

    def restart(self) -> None:
        """Count from 0 again: an engine of functions calls the probe once for each leaf."""
        self._owners.clear()
        self._tensors = 0

    def next_tensor(self) -> str:
        """Return the name of the tensor that the probe's own text is about to make."""
        self._tensors += 1
        return f"tensor[{self._tensors - 1}]"

    def next_parameter(self, owner: Any, attribute: str) -> str:
        """Return the name of a layer's attribute."""
        kind = type(owner).__name__
        owners = self._owners.setdefault(kind, [])
        number = next((i for i, other in enumerate(owners) if other is owner), len(owners))
        if number == len(owners):
            owners.append(owner)
        return f"{kind}[{number}].{attribute}"

    def note(self, name: str, tensor: Any) -> None:
        """Record a leaf; a later one of the same name replaces it."""
        self._made[id(tensor)] = tensor
        self._names[id(tensor)] = name
        self.leaves[name] = tensor

    def made(self, tensor: Any, frame: FrameType) -> None:
        """Record a tensor that was just made; `frame` is that of the constructor's caller."""
        self._made[id(tensor)] = tensor
        if _maker(frame).f_code.co_filename == self.path:
            self.note(self.next_tensor(), tensor)

    def assigned(self, owner: Any, attribute: str, tensor: Any) -> str | None:
        """Record that a tensor became part of a layer; return its name if that is the first time.

        A tensor that was not made in this run is not recorded.
        """
        name = self._names.get(id(tensor), "")
        if id(tensor) not in self._made or not (name == "" or name.startswith("tensor[")):
            return None
        if name:
            del self.leaves[name]
        self.note(self.next_parameter(owner, attribute), tensor)
        return self._names[id(tensor)]


def _maker(frame: FrameType) -> FrameType:
    """Return the frame that asked for a tensor: the caller of `lib.tensor`, or of the class."""
    caller = frame.f_back
    return caller if caller and frame.f_code.co_name == "tensor" else frame


@contextlib.contextmanager
def watching(module: ModuleType, creations: Creations) -> Iterator[None]:
    """Record what is created inside on an engine that is called without an adapter."""
    with contextlib.ExitStack() as stack:
        if module.__name__ == "torch":
            _watch_torch(module, creations, stack)
        elif isinstance(getattr(module, "Tensor", None), type):
            _watch_class(module, creations, stack)
        yield


def _watch_class(module: ModuleType, creations: Creations, stack: contextlib.ExitStack) -> None:
    """Watch the constructor of `Tensor`, and the attributes of `nn.Module` if there is one."""
    tensor_type = module.Tensor
    construct, held = tensor_type.__init__, _Held(tensor_type)

    def make(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        creations.made(self, sys._getframe(1))
        held.hold(self, creations)

    _replace(tensor_type, "__init__", make, stack)
    layer_type = getattr(getattr(module, "nn", None), "Module", None)
    if not isinstance(layer_type, type):
        return
    assign: Any = layer_type.__setattr__

    def note(self: Any, name: str, value: Any) -> None:
        assign(self, name, value)
        for attribute, part in _parts(name, value):
            if isinstance(part, tensor_type) and creations.assigned(self, attribute, part):
                held.hold(part, creations)

    _replace(layer_type, "__setattr__", note, stack)


def _watch_torch(module: ModuleType, creations: Creations, stack: contextlib.ExitStack) -> None:
    """Watch `torch.tensor`, and the parameters of layers."""
    make = module.tensor

    def tensor(*arguments: Any, **options: Any) -> Any:
        made = make(*arguments, **options)
        if sys._getframe(1).f_code.co_filename == creations.path:
            creations.note(creations.next_tensor(), made)
        return made

    def register(owner: Any, name: str, parameter: Any) -> None:
        if parameter is not None:
            creations.note(creations.next_parameter(owner, name), parameter)

    hooks = module.nn.modules.module
    stack.callback(hooks.register_module_parameter_registration_hook(register).remove)
    _replace(module, "tensor", tensor, stack)


def _replace(owner: Any, name: str, value: Any, stack: contextlib.ExitStack) -> None:
    """Set an attribute of a module or a class until the end."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, value)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield f"{name}.{i}", part
    else:
        yield name, value


class _Held:
    """Tensors whose `data` is fixed: what the probe stores in them later has no effect.

    Such a tensor gets another class of the same layout, which reads `data` from here. So a layer's
    weight is what a diagnostic chose, although the probe loads the weights after making the layer.
    """

    def __init__(self, tensor_type: type) -> None:
        self._tensor_type = tensor_type
        self._type: type | None = None
        self._data: dict[int, NumericArray] = {}

    def hold(self, tensor: Any, creations: Creations) -> None:
        """Fix the data of a tensor if its name is among the values."""
        name = creations._names.get(id(tensor))
        if name is None or name not in creations.values:
            return
        if self._type is None:
            data = self._data

            def get(self: Any) -> NumericArray:
                return data[id(self)].copy()  # a change in place has no effect either

            def ignore(self: Any, value: Any) -> None:
                pass

            parts = {"__slots__": (), "data": property(get, ignore)}
            self._type = type(self._tensor_type.__name__, (self._tensor_type,), parts)
        self._data[id(tensor)] = np.array(creations.values[name])
        tensor.__class__ = self._type
