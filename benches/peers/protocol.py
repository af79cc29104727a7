"""What every system that is timed says and hears, one JSON object a line.

It starts, makes five steps and writes {"first_call_s", "losses", "memory_mib"}: by how much resident memory has grown at
most since before the model was made. For each line that it reads, a number of seconds, it
makes steps for that long, reading each loss on the host, and writes {"ms"}: milliseconds a step. It ends with its input.
"""

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


def drawn_spec(folder, workload):
    """The layers of a model of random_models.py, or None."""
    file = pathlib.Path(folder) / workload / "model.json"
    return json.loads(file.read_text()) if file.exists() else None


def serve(step):
    """step() makes one step and returns its loss as a float."""
    start = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - start
    losses += [step() for _ in range(4)]
    memory = resident_mib("VmHWM") - before
    print(json.dumps({"first_call_s": first, "losses": losses, "memory_mib": memory}), flush=True)
    for line in sys.stdin:
        seconds, steps, start = float(line), 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
            step()
            steps += 1
        print(json.dumps({"ms": 1e3 * elapsed / steps}), flush=True)
