"""What every system that is timed says and hears, one JSON object a line.

It starts, makes five steps and writes {"first_call_s", "first_loss_at", "losses", "memory_mib", "versions"}: when the
first loss was read, by the monotonic clock that all processes share; by how much resident memory has grown at most since
before the model was made; versions by what they are of. For each line that it reads, a number of seconds, it makes steps
for that long, reading each loss on the host, and writes {"ms"}: milliseconds a step. It ends with its input.
"""

import importlib.metadata
import itertools
import json
import pathlib
import sys
import time

from safetensors.numpy import load_file


def resident_mib(field):
    """VmRSS: now; VmHWM: the most there ever was."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def inputs(folder, workload):
    """Weights by path, non-trainable state by path, and a list of batches (x, y)."""
    global before
    before = resident_mib("VmRSS")
    of = lambda name: load_file(pathlib.Path(folder) / workload / name / "arrays.safetensors")
    state = of("state") if (pathlib.Path(folder) / workload / "state").exists() else {}
    batches = of("batches")
    return of("weights"), state, list(zip(batches["x"], batches["y"]))


def optimizer_inputs(folder, workload):
    """Weights and their gradients, by path."""
    global before
    before = resident_mib("VmRSS")
    return tuple(load_file(pathlib.Path(folder) / workload / name / "arrays.safetensors") for name in ("weights", "batches"))


def drawn_spec(folder, workload):
    """The layers of a model of random_models.py, or None."""
    file = pathlib.Path(folder) / workload / "model.json"
    return json.loads(file.read_text()) if file.exists() else None


def uses_sgd(workload, spec=None):
    """Whether a workload's optimizer is SGD with momentum, not AdamW."""
    return not spec["adamw"] if spec else workload in ("cnn", "resnet20", "resnet18")


def torch_like_models(mlp, cnn, resnet, transformer, lstm, tanh, relu):
    """By workload what makes its model, of classes with PyTorch's names and arguments."""
    return {
        "tiny": lambda: mlp((8, 32, 10), tanh),
        "mlp": lambda: mlp((784, 512, 512, 10), relu),
        "cnn": cnn,
        "resnet20": lambda: resnet((16, 32, 64), 3),
        "resnet18": lambda: resnet((64, 128, 256, 512), 2),
        "vit": lambda: transformer(192, 6, 3, 64, False, 10),
        "lstm": lstm,
        "gpt": lambda: transformer(256, 4, 4, 128, True, 512),
    }


def package_versions(*packages):
    return {package: importlib.metadata.version(package) for package in packages}


def serve_function(train, state, batches, versions):
    """train(*state, *batch) gives the next state's parts and the loss; the batches take turns."""
    ring, state = itertools.cycle(batches), list(state)

    def step():
        *state[:], loss = train(*state, *next(ring))
        return float(loss)

    serve(step, versions)


def serve(step, versions):
    """step() makes one step and returns its loss as a float; versions() is asked once nothing is timed."""
    start = time.monotonic()
    losses = [step()]
    end = time.monotonic()
    losses += [step() for _ in range(4)]
    memory = resident_mib("VmHWM") - before
    first = {"first_call_s": end - start, "first_loss_at": end}
    print(json.dumps({**first, "losses": losses, "memory_mib": memory, "versions": versions()}), flush=True)
    for line in sys.stdin:
        seconds, steps, start = float(line), 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
            step()
            steps += 1
        print(json.dumps({"ms": 1e3 * elapsed / steps}), flush=True)
