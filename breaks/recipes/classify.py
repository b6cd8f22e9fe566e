"""A classifier for a rare class, with each design choice on a line of its own."""

import numpy as np


def classify(lib, seed=0):
    """Two classes, one of them rare, from two informative features and ten that are not."""
    data_rng, split_rng, model_rng, order_rng, dropout_rng = lib.data.worker_generators(seed, 5)
    x, labels = _patients(300, data_rng)
    later_x, later_labels = _patients(2000, data_rng)

    train, held_out = lib.data.train_test_split(len(x), 0.3, rng=split_rng)
    scaler = lib.data.StandardScaler().fit(x[train])
    x, later_x = scaler.transform(x), scaler.transform(later_x)
    train = _balanced(train, labels)

    model = lib.nn.Sequential(
        lib.nn.Linear(12, 32, rng=model_rng),
        lib.nn.Tanh(),
        lib.nn.Dropout(0.3, rng=dropout_rng),
        lib.nn.Linear(32, 2, rng=model_rng),
    )
    loss_of = lib.losses.cross_entropy
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    batches = lib.data.DataLoader(
        x[train], labels[train], batch_size=32, shuffle=True, rng=order_rng
    )
    epochs, patience = 40, 8

    first_loss, _, _ = _evaluate(lib, model, x[train], labels[train])
    yield {"first_loss": first_loss}
    best_loss, best_epoch, best_state = np.inf, 0, model.state_dict()
    for epoch in range(1, epochs + 1):
        losses, norms = [], []
        for some_x, some_labels in batches:
            optimizer.zero_grad()
            loss = loss_of(model(lib.tensor(some_x)), some_labels)
            loss.backward()
            norms.append(lib.optim.clip_grad_norm_(model.parameters(), max_norm=5.0))
            optimizer.step()
            losses.append(loss.item())
        held_out_loss, _, _ = _evaluate(lib, model, x[held_out], labels[held_out])
        yield {"epochs": epoch, "loss": np.mean(losses), "grad_norm": np.mean(norms)}
        if held_out_loss < best_loss:
            best_loss, best_epoch, best_state = held_out_loss, epoch, model.state_dict()
        if epoch - best_epoch >= patience:
            break

    model.load_state_dict(best_state)
    loss, accuracy, recall = _evaluate(lib, model, x[held_out], labels[held_out])
    yield {"validation_loss": loss, "validation_accuracy": accuracy, "validation_recall": recall}
    loss, accuracy, recall = _evaluate(lib, model, later_x, later_labels)
    yield {"deployed_loss": loss, "deployed_accuracy": accuracy, "deployed_recall": recall}


def _patients(count, rng):
    """Twelve features in different units, and the class, which is 1 for one row in five."""
    labels = (rng.random(count) < 0.2).astype(int)
    angle = rng.uniform(0, np.pi, count)
    moon = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    moon = np.where(labels[:, None] == 1, [1.0, 0.5] - moon, moon)
    x = np.concatenate([moon, np.zeros((count, 10))], axis=1)
    x += rng.standard_normal(x.shape) * [0.3, 0.3, *[1.0] * 10]
    units, offsets = [1.0, 100.0, 0.01, 1000.0], [0.0, 300.0, 0.0, 2000.0]
    return x * np.tile(units, 3) + np.tile(offsets, 3), labels


def _balanced(rows, labels):
    """The rows, with those of the rare class repeated until both classes are equally frequent."""
    rare = rows[labels[rows] == 1]
    missing = np.sum(labels[rows] == 0) - len(rare)
    return np.concatenate([rows, np.resize(rare, missing)])


def _evaluate(lib, model, x, labels):
    """The mean loss, the accuracy, and the recall of the rare class, without training."""
    model.eval()
    with lib.no_grad():
        scores = model(lib.tensor(x))
        loss = lib.losses.cross_entropy(scores, labels).item()
    model.train()
    predicted = scores.data.argmax(1)
    return loss, np.mean(predicted == labels), np.mean(predicted[labels == 1])
