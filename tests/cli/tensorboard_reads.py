"""TensorBoard's own reader finds in the event files of a run what its metrics.csv says.

    python3 tests/cli/tensorboard_reads.py LOCKSTEP PACKAGES FOLDER

PACKAGES is where TensorBoard lies, or is put by pip where it is not installed; without it and a way to PyPI the exit
code is 77, and the test is skipped.
"""

import csv
import importlib.util
import math
import pathlib
import shutil
import subprocess
import sys

program, packages, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.append(packages)
if importlib.util.find_spec("tensorboard") is None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", packages]
    if subprocess.run(pip + ["tensorboard==2.20.0"]).returncode != 0:
        print("there is no tensorboard, and pip cannot install it")
        sys.exit(77)
    importlib.invalidate_caches()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

shutil.rmtree(folder, ignore_errors=True)
train = [program, "train", "--model", "mlp", "--data", "synthetic", "--set", "data.rows=256", "--batch", "32"]
train += ["--log-every", "1", "--devices", "1", "--run", str(folder), "--tensorboard"]
subprocess.run(train + ["--steps", "6"], check=True, stdout=subprocess.DEVNULL)
subprocess.run(train + ["--steps", "12", "--resume"], check=True, stdout=subprocess.DEVNULL)

events = EventAccumulator(str(folder / "events"), size_guidance={"scalars": 0})
events.Reload()
with open(folder / "metrics.csv", newline="") as file:
    rows = list(csv.DictReader(file))
assert [int(row["step"]) for row in rows] == list(range(1, 13)), rows
columns = [name for name in rows[0] if name != "step"]
tags, validation = set(events.Tags()["scalars"]), {"val_loss", "val_accuracy"}
assert tags >= {"loss", "accuracy", "grad_norm"} | validation and tags <= set(columns) | validation, (tags, columns)
for name in validation:  # of epochs of 8 steps and the end; not of where the first part has ended
    assert [event.step for event in events.Scalars(name)] == [8, 12], (name, events.Scalars(name))
compared = 0
for name in tags & set(columns):
    wanted = {int(row["step"]): float(row[name]) for row in rows if row[name]}
    found = {event.step: event.value for event in events.Scalars(name)}
    assert len(events.Scalars(name)) == len(found), f"{name} has a step twice"
    assert found.keys() == wanted.keys(), (name, found, wanted)
    for step, value in found.items():
        assert math.isclose(value, wanted[step], rel_tol=1e-6), (name, step, value, wanted[step])
        compared += 1
assert compared >= 3 * 12, compared
shutil.rmtree(folder)
