"""minigrad rewritten: wrong engines to be caught, and right ones to be left alone."""

from dataclasses import replace

from harness.engines.engine import Engine, find_engine

Change = tuple[str, str, str]
OPTIM, LAYERS, MODULE = "optim.py", "nn/layers.py", "nn/module.py"
NORM, OPS, CHECKPOINTS, DATA = "nn/normalisation.py", "layer_ops.py", "checkpoint.py", "data.py"

RUNNING_MEAN = "(1 - self.momentum) * self.running_mean + self.momentum * mean.data"
RUNNING_VAR = "(1 - self.momentum) * self.running_var + self.momentum * unbiased"

WRONG: dict[str, list[Change]] = {
    # Optimizers.
    "ascent": [
        (
            OPTIM,
            "data + -self.lr * direction\n\n\nclass Adam",
            "data + self.lr * direction\n\n\nclass Adam",
        )
    ],
    "decay adds": [(OPTIM, "direction + self.weight_decay", "direction - self.weight_decay")],
    "no bias correction": [(OPTIM, " / (1 - self.beta1 ** int(self.t[i]))", "")],
    "no square": [(OPTIM, "gradient**2\n", "np.abs(gradient)\n")],
    "coupled decay": [
        (
            OPTIM,
            "self._direction(i, parameter.grad) + decay",
            "self._direction(i, parameter.grad + decay)",
        )
    ],
    "rebinds": [
        (
            OPTIM,
            "parameter.data = parameter.data + -self.lr * direction\n\n\nclass Adam",
            "parameter = Tensor(parameter.data + -self.lr * direction)\n\n\nclass Adam",
        )
    ],
    "never forgets": [(OPTIM, "parameter.grad = None", "pass")],
    "squared norm": [(OPTIM, "total = math.sqrt(sum(", "total = (sum(")],
    "no clipping": [(OPTIM, "max_norm / (total", "math.inf / (total")],
    "warm-up from 0": [(OPTIM, "return (step + 1) / steps", "return step / steps")],
    "mean of means": [(OPTIM, "count / sum(counts)", "1 / len(counts)")],
    "steps in place": [
        (
            OPTIM,
            "parameter.data = parameter.data + -self.lr * direction\n\n\nclass Adam",
            "parameter.data += -self.lr * direction\n\n\nclass Adam",
        )
    ],
    # Layers and modes.
    "eval is not recursive": [
        (
            MODULE,
            "for module in self.modules():\n            module.training = mode",
            "self.training = mode",
        )
    ],
    "dropout in evaluation": [(LAYERS, "if not self.training:\n            return x", "")],
    "dropout off for good": [
        (
            LAYERS,
            "if not self.training:\n            return x",
            "if not self.training:\n            self.p = 0.0\n            return x",
        )
    ],
    "one mask": [(LAYERS, "self.rng.random(x.shape)", "np.random.default_rng(0).random(x.shape)")],
    "no inverse scale": [(OPS, "kept / (1 - p)", "kept")],
    "keeps a share of p": [(LAYERS, ">= self.p", "< self.p")],
    "p is the share to keep": [(LAYERS, "self.p = p\n", "self.p = 1 - p\n")],
    "drops everything": [(LAYERS, ">= self.p", ">= 2")],
    "negates what it keeps": [(OPS, "return a * kept /", "return -a * kept /")],
    "statistics in evaluation": [
        (
            NORM,
            "mean, variance = Tensor(widened(self.running_mean))",
            "self.running_mean = 0.9 * self.running_mean\n"
            "            mean, variance = Tensor(widened(self.running_mean))",
        )
    ],
    "no running mean": [(NORM, "self.running_mean = moved_mean", "_ = moved_mean")],
    "away from the batch": [(NORM, RUNNING_MEAN, RUNNING_MEAN.replace("+", "-"))],
    "variance shrinks": [(NORM, "+ self.momentum * unbiased", "- self.momentum * unbiased")],
    "batch statistics in evaluation": [(NORM, "if self.training:", "if True:")],
    "momentum swapped": [
        (NORM, RUNNING_MEAN, "self.momentum * self.running_mean + (1 - self.momentum) * mean.data")
    ],
    "momentum of the variance swapped": [
        (NORM, RUNNING_VAR, "self.momentum * self.running_var + (1 - self.momentum) * unbiased")
    ],
    "another default momentum": [(NORM, "momentum: float = 0.1", "momentum: float = 0.9")],
    "forward moves a weight": [
        (
            NORM,
            "count = len(x)",
            "count = len(x)\n        self.weight.data = self.weight.data * 0.9",
        )
    ],
    "norm over the batch": [
        (
            NORM,
            "x.mean(-1, keepdim=True)\n        variance",
            "x.mean(0, keepdim=True)\n        variance",
        )
    ],
    "row alone has another shape": [
        (
            NORM,
            "return centred / (variance + self.eps).sqrt() * self.weight + self.bias",
            "out = centred / (variance + self.eps).sqrt() * self.weight + self.bias\n"
            "        return out if len(out) > 1 else out[0]",
        )
    ],
    # State.
    "forgets the moments": [(OPTIM, '("m", "v", "t")', "()")],
    "forgets the velocity": [(OPTIM, '("velocity",)', "()")],
    "forgets generators": [
        (CHECKPOINTS, 'generator.bit_generator.state = header["generators"][name]', "pass")
    ],
    "forgets the schedule": [
        (OPTIM, 'float(state["base_lr"]), int(state["steps"])', 'float(state["base_lr"]), 0')
    ],
    "forgets buffers": [(MODULE, "part[...] = state[name]", "pass")],
    "keeps float32 moments": [(OPTIM, '{i}"], array.dtype)', '{i}"], np.float32)')],
    # First weights, losses, data.
    "zero weights": [
        ("nn/initialisers.py", "return rng.uniform(-bound, bound, shape)", "return np.zeros(shape)")
    ],
    "large weights": [("nn/initialisers.py", "bound = 1 / math", "bound = 100 / math")],
    "bias is not a parameter": [
        (LAYERS, "Tensor(offset, requires_grad=True, dtype=dtype)", "Tensor(offset, dtype=dtype)")
    ],
    "sum for mean": [("losses.py", "len(classes) if _is_mean(reduction) else 1", "1")],
    "rewards errors": [
        (OPS, "return -log_p", "return log_p"),
        (OPS, "(error * (g / denominator),)", "(-error * (g / denominator),)"),
    ],
    "no way around": [(MODULE, "return x + change", "return change")],
    "labels shuffled": [
        (
            DATA,
            "tuple(array[rows] for array in self.arrays)",
            "tuple(array[self.rng.permutation(rows)] for array in self.arrays)",
        )
    ],
    "one seed": [(DATA, "default_rng(child) for", "default_rng(seed) for")],
}

RIGHT: dict[str, list[Change]] = {
    "as it is": [],
    "float32": [
        (
            "tensor.py",
            "= np.asarray(data), requires_grad\n",
            "= np.asarray(data, {'d': 'f'}.get(np.asarray(data).dtype.char)), requires_grad\n",
        )
    ],
    "Adam's eps inside the root": [
        (OPTIM, "np.sqrt(mean_square) + self.eps", "np.sqrt(mean_square + self.eps)")
    ],
    "no eps in clipping": [(OPTIM, "(total + 1e-6)", "total")],
    "biased running variance": [
        (NORM, "self.momentum * unbiased", "self.momentum * variance.data")
    ],
    "slope 1 of abs at 0": [("elementwise.py", "np.sign(a)", "np.where(a >= 0, 1.0, -1.0)")],
    "accumulates in place": [
        (
            "tensor.py",
            "return cotangent if total is None else total + cotangent",
            "total = np.zeros_like(node.data) if total is None else total\n"
            "    total += cotangent\n    return total",
        )
    ],
}


def changed(changes: list[Change]) -> Engine:
    """minigrad with every place that reads `old` in `file` reading `new`."""
    engine = find_engine()
    sources = dict(engine.sources)
    for file, old, new in changes:
        assert old in sources[f"minigrad/{file}"], old
        sources[f"minigrad/{file}"] = sources[f"minigrad/{file}"].replace(old, new)
    return replace(engine, sources=sources)
