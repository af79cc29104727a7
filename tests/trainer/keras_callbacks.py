"""What Keras' EarlyStopping and ReduceLROnPlateau do with drawn metrics, for keras_callbacks_test.cpp.

    KERAS_BACKEND=numpy python3 tests/trainer/keras_callbacks.py > tests/trainer/keras_callbacks.txt

A line: the callback, its options, then for each epoch the metric, and behind a slash what followed: for EarlyStopping "-",
"best" or "stop", and last the epoch whose weights it restores; for ReduceLROnPlateau the learning rate.
"""

import random

import keras


class Model:
    """As much of a model as the callbacks ask for. Its weights are the number of the epoch."""

    def __init__(self):
        self.stop_training = False
        self.weights = 0
        self.optimizer = type("Optimizer", (), {"learning_rate": 1.0})()

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = weights


def metrics(draw, count):
    value = 4.0
    values = []
    for _ in range(count):
        value += draw.choice([-0.5, -0.25, -0.125, 0, 0, 0.125, 0.25])
        values.append(value)
    return values


def early_stopping(draw):
    options = {
        "patience": draw.choice([0, 1, 2, 3]),
        "min_delta": draw.choice([0, 0, 0.25]),
        "mode": draw.choice(["min", "max"]),
        "baseline": draw.choice([None, None, 3.5]),
        "restore_best_weights": draw.choice([True, False]),
        "start_from_epoch": draw.choice([0, 0, 2]),
    }
    callback = keras.callbacks.EarlyStopping(monitor="m", **options)
    model = Model()
    callback.set_model(model)
    callback.on_train_begin()
    epochs = []
    for epoch, value in enumerate(metrics(draw, 14)):
        model.weights = epoch
        best = callback.best
        callback.on_epoch_end(epoch, {"m": value})
        event = "stop" if model.stop_training else "best" if callback.best is not best else "-"
        epochs.append(f"{value}/{event}")
        if model.stop_training:
            break
    callback.on_train_end()
    words = [str(options[name]).lower() for name in options]
    print("early_stopping", *words, *epochs, model.weights)


def reduce_lr_on_plateau(draw):
    options = {
        "factor": draw.choice([0.5, 0.25]),
        "patience": draw.choice([0, 1, 2]),
        "min_delta": draw.choice([0, 0.25]),
        "mode": draw.choice(["min", "max"]),
        "cooldown": draw.choice([0, 1, 2]),
        "min_lr": draw.choice([0, 0.1875]),
    }
    callback = keras.callbacks.ReduceLROnPlateau(monitor="m", **options)
    model = Model()
    callback.set_model(model)
    callback.on_train_begin()
    epochs = []
    for epoch, value in enumerate(metrics(draw, 14)):
        callback.on_epoch_end(epoch, {"m": value})
        epochs.append(f"{value}/{float(model.optimizer.learning_rate)}")
    print("reduce_lr_on_plateau", *(options[name] for name in options), *epochs)


if __name__ == "__main__":
    drawn = random.Random(7)
    print("keras", keras.__version__)
    for _ in range(40):
        early_stopping(drawn)
    for _ in range(40):
        reduce_lr_on_plateau(drawn)
