"""Times the training step of every system, interleaved, and writes one table of ratios.

    python benches/compare.py build/release/bin [--workloads tiny,mlp] [--rounds 9] [--seconds 0.5] [--out results]

Python needs benches/peers/requirements.txt, torch.compile and MLX need a C++ compiler, LibTorch a build of its own:

    python3 -m venv build/deps/peers && build/deps/peers/bin/pip install -r benches/peers/requirements.txt
    cmake -S benches/peers -B build/peers && cmake --build build/peers

A system that is not there or does not start is named with its reason, and the others are timed. Every system runs in a
process of its own and waits while another one is timed. A sample counts only if other processes used under 2% of the
machine while it was taken; a row whose median lies 15% above its best sample is measured once more, with all others, and
then does not count. Before and after each workload one product and one copy say how fast the machine is.
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

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
LIBTORCH = HERE.parent / "build" / "peers" / "libtorch_step"
WORKLOADS = "tiny mlp cnn resnet20 resnet18 vit lstm gpt adam10m".split()
MOST_SPREAD = 1.15  # of a row's median over its best sample; a row with more is measured again, and then does not count
MOST_FOREIGN_WORK = 0.02  # a share of the machine; a sample taken while others did more does not count
LONGEST_START = 1200  # seconds to the first losses, compilation included; a system that needs more is absent
VARIANTS = ("eager", "eager-tuned", "compiled", "compiled-tuned")


def systems(binaries, folder, workload):
    ours = [str(binaries / "bench_train_step"), workload, "--folder", folder]
    devices = "1" if workload == "tiny" else "2"
    yield "lockstep", [*ours, "--devices", devices, "--shards", "1" if workload == "tiny" else "2"]
    yield "lockstep V=8", [*ours, "--devices", devices, "--shards", "8"]
    yield "lockstep bf16", [*ours, "--devices", devices, "--shards", "2", "--precision", "bfloat16"]
    yield "jax", [sys.executable, str(PEERS / "jax_step.py"), folder, workload]
    for variant in VARIANTS:
        yield f"torch {variant}", [sys.executable, str(PEERS / "torch_step.py"), folder, workload, variant]
    yield "libtorch", [str(LIBTORCH), folder, workload]
    yield "keras", [sys.executable, str(PEERS / "keras_step.py"), folder, workload]
    yield "mlx", [sys.executable, str(PEERS / "mlx_step.py"), folder, workload]
    autocast = [sys.executable, str(PEERS / "torch_step.py"), folder, workload, "eager-tuned-autocast"]
    yield "torch autocast", autocast


def is_bfloat16(name):
    """Such systems are compared with each other, and their losses with float32's."""
    return name.endswith((" bf16", " autocast"))


def jiffies(path, first, last):
    fields = pathlib.Path(path).read_text().rsplit(")", 1)[-1].split()
    return sum(map(int, fields[first:last]))


def busy():
    """Jiffies that all processors have worked, what was stolen from them included."""
    values = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
    return sum(values[:3]) + sum(values[5:8])


class Process:
    def __init__(self, name, command):
        self.name, start = name, time.perf_counter()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        alarm = threading.Timer(LONGEST_START, self.process.kill)
        alarm.start()
        try:
            self.first = self.read()
        finally:
            alarm.cancel()
        self.start_s = time.perf_counter() - start
        self.samples, self.disturbed = [], 0

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

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

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def take_samples(running, rounds, seconds):
    for _ in range(rounds * 3):
        for process in [p for p in running if len(p.samples) < rounds]:
            process.sample(seconds)


def measure_machine(binaries):
    """What one device reaches now in a product and in a copy."""
    said = subprocess.run([str(binaries / "bench_machine")], check=True, capture_output=True, text=True).stdout
    return json.loads(said)


def counting(rows):
    """Medians of the rows that count."""
    return {n: r["median_ms"] for n, r in rows.items() if "median_ms" in r and not r["noisy"]}


def measure(binaries, folder, workload, rounds, seconds, only):
    running, absent = [], {}
    draw = [str(binaries / "bench_train_step"), workload, "--folder", folder, "--draw"]
    subprocess.run(draw, check=True)  # a process of its own, so that drawing counts in nobody's memory
    for name, command in systems(binaries, folder, workload):
        if only and name not in only:
            continue
        try:
            running.append(Process(name, command))
        except (RuntimeError, FileNotFoundError) as error:
            absent[name] = str(error)
    take_samples(running, rounds, seconds)
    if any(p.is_noisy() for p in running):
        for process in running:  # all of them, so that they still meet the same minutes
            process.samples = []
        take_samples(running, rounds, seconds)
    for process in running:
        process.close()
    rows = {}
    for p in running:
        row = {"first_call_s": p.first["first_call_s"], "start_s": p.start_s, "losses": p.first["losses"],
               "memory_mib": p.first["memory_mib"]}
        if p.samples:
            row["median_ms"], row["best_ms"] = statistics.median(p.samples), min(p.samples)
            row["noisy"] = p.is_noisy()
        rows[p.name] = {**row, "samples": len(p.samples), "disturbed": p.disturbed}
    return rows, absent


def losses_agree(rows, bfloat16):
    ours = rows["lockstep"]["losses"]
    worst = 0.0
    for name, row in rows.items():
        if is_bfloat16(name) == bfloat16:
            worst = max(worst, *(abs(a - b) / abs(b) for a, b in zip(row["losses"], ours)))
    return worst


def table(results):
    lines = []
    for workload, result in results.items():
        rows = result["rows"]
        medians = counting(rows)
        peers = {n: ms for n, ms in medians.items() if not n.startswith("lockstep")}
        best_of = {b: min((n for n in peers if is_bfloat16(n) == b), key=peers.get, default=None) for b in (False, True)}
        jax = rows.get("jax", {}).get("first_call_s")
        spread = f"{workload}: losses of steps 1 to 5 within {result['loss_spread']:.1e}"
        if any(map(is_bfloat16, rows)):
            spread += f", in bfloat16 within {result['bf16_loss_spread']:.1e}"
        lines.append(spread)
        for when, machine in zip(("before", "after"), result["machine"]):
            lines.append(f"  one device {when}: product {machine['product_gflops']:.0f} GFLOP/s, "
                         f"copy {machine['copy_gbytes']:.1f} GB/s")
        for name, row in rows.items():
            text = f"  {name:20} {row.get('median_ms', float('nan')):10.3f} ms  first call {row['first_call_s']:7.3f} s"
            text += f"  start to first losses {row['start_s']:6.2f} s  memory {row['memory_mib']:6.0f} MiB"
            best = best_of[is_bfloat16(name)]
            if best and name.startswith("lockstep") and name in medians:
                text += f"  {medians[name] / peers[best]:.2f} of {best}"
                text += f", first call {row['first_call_s'] / jax:.3f} of jax's" if jax else ""
            lines.append(text + ("  noisy, does not count" if row.get("noisy") else ""))
        lines += [f"  {name:20} {reason}" for name, reason in result["absent"].items()]
    return "\n".join(lines)


def plot(results):
    """Bars of each system's median over the best peer's."""
    bars, y = [], 20
    for workload, result in results.items():
        rows = counting(result["rows"])
        best = min((ms for n, ms in rows.items() if not n.startswith("lockstep")), default=None)
        bars.append(f'<text x="10" y="{y + 12}" font-weight="bold">{workload}</text>')
        for name, ms in rows.items():
            ratio = ms / best if best else 1
            colour = "#2060c0" if name.startswith("lockstep") else "#a0a0a0"
            bars.append(f'<text x="90" y="{y + 12}">{name}</text>')
            bars.append(f'<rect x="230" y="{y}" width="{min(ratio, 6) * 80:.0f}" height="14" fill="{colour}"/>')
            bars.append(f'<text x="{236 + min(ratio, 6) * 80:.0f}" y="{y + 12}">{ratio:.2f} ({ms:.2f} ms)</text>')
            y += 18
        y += 12
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{y + 10}" {style}>' + "".join(bars) + "</svg>\n"


def processor():
    model = [l for l in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if l.startswith("model name")]
    return {"model": model[0].split(":")[1].strip() if model else platform.processor(), "cores": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--systems", type=lambda text: text.split(","), help="of those that there are, only these")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--inputs", default="build/benches", help="weights and batches that all systems start from")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/benches/train_step"))
    a = parser.parse_args()
    pathlib.Path(a.inputs).mkdir(parents=True, exist_ok=True)
    results = {}
    for workload in a.workloads.split(","):
        before = measure_machine(a.binaries)
        rows, absent = measure(a.binaries, a.inputs, workload, a.rounds, a.seconds, a.systems)
        machine = [before, measure_machine(a.binaries)]
        results[workload] = {"machine": machine, "rows": rows, "absent": absent,
                             "loss_spread": losses_agree(rows, False), "bf16_loss_spread": losses_agree(rows, True)}
        print(table({workload: results[workload]}), flush=True)
    a.out.with_suffix(".json").write_text(json.dumps({"processor": processor(), "results": results}, indent=1) + "\n")
    a.out.with_suffix(".txt").write_text(table(results) + "\n")
    a.out.with_suffix(".svg").write_text(plot(results))


if __name__ == "__main__":
    main()
