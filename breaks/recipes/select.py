"""Far more features than samples: a linear classifier on a few selected features."""

import numpy as np


def select(lib, seed=0):
    """Ten of 300 features, selected on the training rows; validation rows only evaluate."""
    data_rng, split_rng, model_rng, order_rng = lib.data.worker_generators(seed, 4)
    x, labels = _samples(90, data_rng)
    later_x, later_labels = _samples(2000, data_rng)

    train, held_out = lib.data.train_test_split(len(x), 0.33, rng=split_rng)
    chosen = _most_different(x[train], labels[train], 10)
    x, later_x = x[:, chosen], later_x[:, chosen]
    scaler = lib.data.StandardScaler().fit(x[train])
    x, later_x = scaler.transform(x), scaler.transform(later_x)

    model = lib.nn.Linear(10, 2, rng=model_rng)
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.03, weight_decay=1.0)
    batches = lib.data.DataLoader(
        x[train], labels[train], batch_size=20, shuffle=True, rng=order_rng
    )
    epochs = 60
    for _ in range(epochs):
        losses = []
        for some_x, some_labels in batches:
            optimizer.zero_grad()
            loss = lib.losses.cross_entropy(model(lib.tensor(some_x)), some_labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        held_out_loss, accuracy = _evaluate(lib, model, x[held_out], labels[held_out])
        yield {
            "loss": np.mean(losses),
            "validation_loss": held_out_loss,
            "validation_accuracy": accuracy,
            "weight_norm": np.linalg.norm(model.weight.data),
        }
    loss, accuracy = _evaluate(lib, model, later_x, later_labels)
    yield {"deployed_loss": loss, "deployed_accuracy": accuracy}


def _samples(count, rng):
    """300 features, the first five of them weakly informative, and one of two classes."""
    labels = rng.integers(2, size=count)
    x = rng.standard_normal((count, 300))
    x[:, :5] += 0.8 * labels[:, None]
    return x, labels


def _most_different(x, labels, count):
    """The features whose means differ most between the classes, in standard deviations."""
    gap = x[labels == 1].mean(0) - x[labels == 0].mean(0)
    return np.argsort(-np.abs(gap) / x.std(0))[:count]


def _evaluate(lib, model, x, labels):
    """The mean loss and the accuracy, without training."""
    with lib.no_grad():
        scores = model(lib.tensor(x))
        loss = lib.losses.cross_entropy(scores, labels).item()
    return loss, np.mean(scores.data.argmax(1) == labels)
