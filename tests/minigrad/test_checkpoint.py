"""A training that is interrupted and resumed is the training that was not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, checkpoint, data, losses, nn, optim
from tests.minigrad.modules import DTYPES, normal, public_names, rng

X, Y = normal(30, 4), normal(30, 2, seed=1)


class Training:
    """Everything that a training has, made anew as a program would make it when it starts."""

    def __init__(self, optimizer: str, dtype: Any, seed: int) -> None:
        generator = rng(seed)
        self.model = nn.Sequential(
            nn.Linear(4, 8, rng=generator, dtype=dtype),
            nn.BatchNorm1d(8, dtype=dtype),
            nn.Dropout(0.4, rng=rng(seed + 1)),
            nn.Linear(8, 2, rng=generator, dtype=dtype),
        )
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        self.optimizer = getattr(optim, optimizer)(self.model.parameters(), lr=0.1, **options)
        self.scheduler = optim.Scheduler(self.optimizer, lambda s: optim.warmup_cosine(s, 3, 40))
        x, y = X.astype(dtype), Y.astype(dtype)
        self.loader = data.DataLoader(x, y, batch_size=8, rng=rng(seed + 2))
        self.noise = rng(seed + 3)

    def parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "generators": {"loader": self.loader.rng, "noise": self.noise},
        }

    def run(self, epochs: int) -> list[float]:
        observed = []
        for _ in range(epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                noisy = data.add_noise(x, 0.1, rng=self.noise)
                loss = losses.mse(self.model(Tensor(noisy)), y)
                loss.backward()
                optim.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.scheduler.step()
                observed.append(loss.item())
        return observed


def everything(training: Training) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name in ("model", "optimizer", "scheduler"):
        state = getattr(training, name).state_dict()
        arrays |= {f"{name}/{key}": array for key, array in state.items()}
    return arrays


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_a_resumed_training_is_the_uninterrupted_one(
    optimizer: str, dtype: Any, tmp_path: Path
) -> None:
    whole = Training(optimizer, dtype, seed=0)
    expected = whole.run(5)

    first = Training(optimizer, dtype, seed=0)
    observed = first.run(2)
    checkpoint.save(tmp_path / "training.npz", 2, **first.parts())
    resumed = Training(optimizer, dtype, seed=50)
    epoch = checkpoint.load(tmp_path / "training.npz", **resumed.parts())
    assert epoch == 2
    assert observed + resumed.run(5 - epoch) == expected
    for name, array in everything(resumed).items():
        np.testing.assert_array_equal(array, everything(whole)[name], name, strict=True)


@pytest.mark.parametrize("missing", ["optimizer", "scheduler", "noise", "loader", "dropout"])
def test_a_training_that_resumes_without_one_part_is_another(missing: str, tmp_path: Path) -> None:
    whole, first, resumed = (Training("Adam", np.float64, seed) for seed in (0, 0, 50))
    expected = whole.run(3)
    observed = first.run(1)
    saved, wanted = first.parts(), resumed.parts()
    for parts in (saved, wanted):
        parts.pop(missing, None)
        parts["generators"].pop(missing, None)
    checkpoint.save(tmp_path / "training.npz", 1, **saved)
    checkpoint.load(tmp_path / "training.npz", **wanted)
    if missing == "dropout":
        resumed.model.layers[2].rng = rng(1)  # type: ignore[attr-defined]
    assert observed + resumed.run(2) != expected


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_bit_generator_of_numpy_goes_on(kind: str, tmp_path: Path) -> None:
    def generator(seed: int) -> np.random.Generator:
        return np.random.Generator(getattr(np.random, kind)(seed))

    model, own = nn.ReLU(), generator(0)
    own.integers(0, 9, 3, dtype=np.int32)  # leaves half of a draw over
    checkpoint.save(tmp_path / "c.npz", 0, model=model, generators={"own": own})
    resumed = generator(1)
    checkpoint.load(tmp_path / "c.npz", model=model, generators={"own": resumed})
    for draw in (lambda g: g.integers(0, 9, 5, dtype=np.int32), lambda g: g.standard_normal(99)):
        np.testing.assert_array_equal(draw(resumed), draw(own))


def test_the_file_is_plain_npz_without_pickle(tmp_path: Path) -> None:
    model = nn.Linear(3, 2, rng=rng())
    checkpoint.save(tmp_path / "c.npz", 7, model=model)
    with np.load(tmp_path / "c.npz", allow_pickle=False) as file:
        assert sorted(file) == ["header", "model/bias", "model/weight"]
        np.testing.assert_array_equal(file["model/weight"], model.weight.data)
        assert '"step": 7' in file["header"].item()


def test_a_checkpoint_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    model = nn.Linear(3, 2, rng=rng())
    path = tmp_path / "c.npz"
    checkpoint.save(path, 1, model=model)
    before = path.read_bytes()
    model.names = np.array([None, "x"])  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        checkpoint.save(path, 2, model=model)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_replaces_the_last_one(tmp_path: Path) -> None:
    model = nn.Linear(3, 2, rng=rng())
    for step in (1, np.int64(2)):
        checkpoint.save(str(tmp_path / "c.npz"), step, model=model)
    assert checkpoint.load(str(tmp_path / "c.npz"), model=model) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def test_shared_generators_are_saved_once_and_stay_shared(tmp_path: Path) -> None:
    def build(seed: int) -> nn.Sequential:
        shared = rng(seed)
        return nn.Sequential(nn.Dropout(rng=shared), nn.Dropout(rng=shared))

    model, resumed = build(0), build(1)
    x = Tensor(np.ones(100))
    model(x)
    checkpoint.save(tmp_path / "c.npz", 0, model=model)
    checkpoint.load(tmp_path / "c.npz", model=resumed)
    np.testing.assert_array_equal(resumed(x).data, model(x).data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": None}, r"the parts \['model', 'optimizer', 'scheduler'\], but it is loaded"),
        ({"generators": {}}, r"the generators \['loader', 'model/layers.2.rng', 'noise'\], but"),
        ({"generators": None}, r"loaded into \['model/layers.2.rng'\]"),
    ],
)
def test_a_checkpoint_goes_back_into_the_same_parts(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    training = Training("SGD", np.float64, 0)
    checkpoint.save(tmp_path / "c.npz", 0, **training.parts())
    with pytest.raises(ValueError, match=message):
        checkpoint.load(tmp_path / "c.npz", **(training.parts() | change))


def test_another_file_is_no_checkpoint(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", weight=np.ones(3))
    with pytest.raises(ValueError, match=r"c\.npz is not a 'minigrad checkpoint 1'"):
        checkpoint.load(tmp_path / "c.npz", model=nn.ReLU())


def test_every_public_name_is_known_here() -> None:
    assert public_names(checkpoint) == {"save", "load"}
