"""Times the training step of every system, interleaved, and writes one table of ratios.

    python benches/compare.py build/release/bin [--workloads tiny,mlp] [--rounds 9] [--seconds 0.5] [--out results]

Python, or what PEERS_PYTHON names, needs benches/peers/requirements.txt, torch.compile and MLX need a C++ compiler, LibTorch a build of its own:

    python3 -m venv build/deps/peers && build/deps/peers/bin/pip install -r benches/peers/requirements.txt
    cmake -S benches/peers -B build/peers && cmake --build build/peers

A system that is not there or does not start is named with its reason, and the others are timed. Every system runs in a
process of its own and waits while another one is timed. A sample counts only if other processes used under 2% of the
machine while it was taken. A row of less than three samples, of half of the rounds or less, or whose median lies 15% above its
best sample, is measured once more, with all others, and then does not count. Before and after each workload one product
and one copy say how fast the machine is.

"lockstep 1 device" runs the two shards of "lockstep", which has two devices, on one. adam10m is an optimizer alone: its
gradient is the same one in each step of each system, as its definition says, and it has neither shards nor products.
So are those named <optimizer>_weights, of eight matrices with their biases. "--workloads layers" stands for models made of
one layer each and these optimizers, which JAX and PyTorch alone have beside us, "--workloads matrices" for calls of linear
algebra, which are compared with JAX's. "--starts 5" makes first calls medians of five processes, in turn.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import threading
import time

from tables import heading, losses_agree, plot, table

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
PYTHON = os.environ.get("PEERS_PYTHON", sys.executable)
LIBTORCH = HERE.parent / "build" / "peers" / "libtorch_step"
WORKLOADS = "tiny mlp cnn resnet20 resnet18 vit lstm gpt adam10m".split()
LAYERS = "group_norm instance_norm separable_conv conv_transpose dilated_conv swiglu grouped_attention gru".split()
MATRICES = [op + dtype for op in ("cholesky", "cholesky_grad", "triangular_solve", "triangular_solve_grad")
            for dtype in ("", "_float64")]
OPTIMIZERS = "lion adabelief lamb adafactor muon".split()
MOST_SPREAD = 1.15  # of a row's median over its best sample; a row with more is measured again, and then does not count
MOST_FOREIGN_WORK = 0.02  # a share of the machine; a sample taken while others did more does not count
SAID_FIRST = {"first_call_s", "first_loss_at", "losses", "memory_mib", "versions"}
LEAST_SAMPLES = 3  # of a row that counts; and more than half of the rounds
LONGEST_START = 1200  # seconds to the first losses, compilation included; a system that needs more is absent
VARIANTS = ("eager", "eager-tuned", "compiled", "compiled-tuned")


def is_optimizer(workload):
    return workload == "adam10m" or workload.endswith("_weights")


def has_shards(workload):
    return not is_optimizer(workload) and workload not in MATRICES


def systems(binaries, folder, workload):
    ours = [str(binaries / "bench_train_step"), workload, "--folder", folder]
    peer = lambda script, *arguments: [PYTHON, str(PEERS / script), folder, workload, *arguments]
    devices, shards = ("1", "1") if workload == "tiny" else ("2", "2")
    yield "lockstep", [*ours, "--devices", devices, "--shards", shards]
    if has_shards(workload):
        yield "lockstep V=8", [*ours, "--devices", devices, "--shards", "8"]
        if devices != "1":
            yield "lockstep 1 device", [*ours, "--devices", "1", "--shards", shards]
        yield "lockstep bf16", [*ours, "--devices", devices, "--shards", shards, "--precision", "bfloat16"]
    yield "jax", peer("jax_step.py")
    if workload in MATRICES:
        return
    for variant in VARIANTS:
        yield f"torch {variant}", peer("torch_step.py", variant)
    if workload in LAYERS or is_optimizer(workload) and workload != "adam10m":
        return
    yield "libtorch", [str(LIBTORCH), folder, workload]
    yield "keras", peer("keras_step.py")
    yield "mlx", peer("mlx_step.py")
    if not is_optimizer(workload):
        yield "torch autocast", peer("torch_step.py", "eager-tuned-autocast")
        yield "torch compiled autocast", peer("torch_step.py", "compiled-tuned-autocast")


def jiffies(path, first, last):
    fields = pathlib.Path(path).read_text().rsplit(")", 1)[-1].split()
    return sum(map(int, fields[first:last]))


def busy():
    """Jiffies that all processors have worked, what was stolen from them included."""
    values = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
    return sum(values[:3]) + sum(values[5:8])


class Process:
    def __init__(self, name, command):
        self.name, self.command, start = name, command, time.monotonic()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        alarm = threading.Timer(LONGEST_START, self.process.kill)
        alarm.start()
        try:
            self.first = self.read()
        finally:
            alarm.cancel()
        if missing := SAID_FIRST - self.first.keys():
            self.close()
            raise RuntimeError(f"{name} did not say {', '.join(sorted(missing))}: build {command[0]} again")
        self.start_s = self.first["first_loss_at"] - start
        self.samples, self.disturbed = [], 0

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            raise RuntimeError(f"{self.name} said {line.strip()}") from None

    def worked(self):
        return jiffies(f"/proc/{self.process.pid}/stat", 11, 13)

    def sample(self, seconds):
        others, start = busy() - self.worked(), time.perf_counter()
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        ms = self.read()["ms"]
        available = (time.perf_counter() - start) * os.cpu_count() * os.sysconf("SC_CLK_TCK")
        if (busy() - self.worked() - others) / available < MOST_FOREIGN_WORK:
            self.samples.append(ms)
        else:
            self.disturbed += 1

    def is_noisy(self):
        return bool(self.samples) and statistics.median(self.samples) > MOST_SPREAD * min(self.samples)

    def counts(self, rounds):
        return len(self.samples) >= max(LEAST_SAMPLES, rounds // 2 + 1) and not self.is_noisy()

    def row(self, rounds):
        row = {key: self.first[key] for key in ("first_call_s", "losses", "memory_mib")}
        row |= {"start_s": self.start_s, "samples": len(self.samples), "disturbed": self.disturbed}
        if self.samples:
            row |= {"median_ms": statistics.median(self.samples), "best_ms": min(self.samples)}
        return {**row, "noisy": self.is_noisy(), "counts": self.counts(rounds)}

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def take_samples(running, rounds, seconds):
    for _ in range(rounds * 3):
        for process in [p for p in running if len(p.samples) < rounds]:
            process.sample(seconds)


def measure_machine(binaries):
    """What one device reaches now in a product and in a copy."""
    said = subprocess.run([str(binaries / "bench_machine")], check=True, capture_output=True, text=True).stdout
    return json.loads(said)


def start(binaries, folder, workload, only, starts):
    """The processes of the systems, each with its first steps made, and by name why others are absent. First calls are
    medians of so many starts."""
    draw = [str(binaries / "bench_train_step"), workload, "--folder", folder, "--draw"]
    subprocess.run(draw, check=True)  # a process of its own, so that drawing counts in nobody's memory
    running, absent = [], {}
    for name, command in systems(binaries, folder, workload):
        if only and name not in only:
            continue
        try:
            running.append(Process(name, command))
        except (RuntimeError, FileNotFoundError) as error:
            absent[name] = str(error)
    first_calls = {p.name: [p.first["first_call_s"]] for p in running}
    for _ in range(starts - 1):
        for process in running:
            again = Process(process.name, process.command)
            again.close()
            first_calls[process.name].append(again.first["first_call_s"])
    for process in running:
        process.first["first_call_s"] = statistics.median(first_calls[process.name])
    return running, absent


def measure(binaries, folder, workload, rounds, seconds, only, starts=1, again=1):
    """Rows, absent systems' reasons and versions, by system; `again`: how often what does not count is measured anew."""
    running, absent = start(binaries, folder, workload, only, starts)
    take_samples(running, rounds, seconds)
    for _ in range(again):
        if all(p.counts(rounds) for p in running):
            break
        for process in running:  # all of them, so that they still meet the same minutes
            process.samples = []
        take_samples(running, rounds, seconds)
    for process in running:
        process.close()
    versions = {"python": {"python": platform.python_version()}}
    for p in running:
        versions.setdefault(p.name.split()[0], {}).update(p.first["versions"])
    return {p.name: p.row(rounds) for p in running}, absent, versions


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    return {"model": fields.get("model name", platform.processor()), "family": fields.get("cpu family", "unknown"),
            "number": fields.get("model", "unknown"), "cores": os.cpu_count(),
            "second_level_cache": cache.read_text().strip() if cache.exists() else "unknown"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--systems", type=lambda text: text.split(","), help="of those that there are, only these")
    parser.add_argument("--rounds", type=int, default=9, help=f"at least {LEAST_SAMPLES}, or nothing counts")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--cores", type=int, help="the first so many alone, for every system")
    parser.add_argument("--inputs", default="build/benches", help="weights and batches that all systems start from")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/benches/train_step"))
    a = parser.parse_args()
    if a.cores:
        os.sched_setaffinity(0, range(a.cores))
    pathlib.Path(a.inputs).mkdir(parents=True, exist_ok=True)
    results, versions = {}, {}
    sets = {"layers": LAYERS + [f"{name}_weights" for name in OPTIMIZERS], "matrices": MATRICES}
    for workload in sets.get(a.workloads) or a.workloads.split(","):
        before = measure_machine(a.binaries)
        rows, absent, known = measure(a.binaries, a.inputs, workload, a.rounds, a.seconds, a.systems, a.starts)
        versions |= known
        machine = [before, measure_machine(a.binaries)]
        results[workload] = {"machine": machine, "rows": rows, "absent": absent,
                             "loss_spread": losses_agree(rows, False), "bf16_loss_spread": losses_agree(rows, True)}
        print(table({workload: results[workload]}), flush=True)
    made_by = heading(processor(), versions)
    print(made_by)
    document = {"processor": processor(), "versions": versions, "results": results}
    a.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    a.out.with_suffix(".txt").write_text(made_by + "\n" + table(results) + "\n")
    a.out.with_suffix(".svg").write_text(plot(results))


if __name__ == "__main__":
    main()
