"""Foretells what a step takes on more devices: first here, where it can be measured, then on paper.

    python benches/scaling.py measure build/release/bin [--workloads mlp,cnn,gpt] [--processes 1,2,4] [--mpirun mpirun]
    python benches/scaling.py plans build/release/bin
    python benches/scaling.py predict

`measure`: for P processes of one device each, (a) the step on the rows that one process has, in P processes at once that
know nothing of each other: the median of the latest of P, or, where P are more than the cores, the processor's time of all
over the cores, while they sleep between two steps, so that each begins with what another one left in the caches; (b) by
bytes, what a sum over P processes adds to a product that is summed and moves a weight, behind products over memory of its
own, beside the same in P processes apart; (c) the step of all. Foretold is (a) and (b) of all bytes of the step's sums at
once; it stands beside (c). `plans`:
memory and operations of small gpts from their plans, a formula fitted to most of them, and how far it is from the others.
`predict`: the tables of docs/scaling.md, from scaling_model.py.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import shlex
import subprocess
import sys

from scaling_model import Gpt, Layout, Link, Machine, efficiency, powers, predict

SHARDS = 8
ROWS = {"mlp": 128, "cnn": 64, "gpt": 8, "lstm": 32, "vit": 32, "resnet20": 64}
BEHIND = 8  # walks over 2 MiB before a sum that is timed: what a step leaves of the caches
ENOUGH = 0.5  # of a device's time spent on its share of the model: below it a layout does not pay


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def start(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def said(command):
    process = start(command)
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}")
    return lines(text)


def at_once(command, count):
    """What each of several processes says that know nothing of each other."""
    processes = [start(command) for _ in range(count)]
    return [lines(process.communicate()[0]) for process in processes]


def between(points, x):
    """A straight line between the two points around x; before the first one its value, behind the last one in proportion."""
    if x <= points[0][0]:
        return points[0][1]
    for (low, before), (high, after) in itertools.pairwise(points):
        if x <= high:
            return before + (after - before) * (x - low) / (high - low)
    return points[-1][1] * x / points[-1][0]


def turns_of(processes):
    """Processes that know nothing of each other keep a core for milliseconds; those that meet find it as others left it."""
    return ["--turns"] if processes > (os.cpu_count() or 1) else []


def exchanges(together, program, options, processes):
    """By bytes, what a sum adds to the same calls in as many processes that have nobody to exchange with."""
    arguments = ["exchange", "--of-gradients", "--behind", str(BEHIND), *options]
    rows = said([*together, program, *arguments])
    apart = at_once([program, *arguments, *turns_of(processes)], processes)
    return [
        {**row, "seconds": max(0.0, row["seconds"] - alone_seconds([one[i] for one in apart], processes))}
        for i, row in enumerate(rows)
    ]


def exchange_seconds(table, whole):
    """Of a step: one sum of all its bytes, since its sums go together, and the other meetings, which have a few bytes."""
    if not table:
        return 0.0
    payload = sum(size * times for size, times in whole["collectives"])
    others = whole["meetings"] - between([(row["bytes"], row["meetings"]) for row in table], payload)
    one = between([(row["bytes"], row["seconds"]) for row in table], payload)
    return one + max(0.0, others) * table[0]["seconds"] / table[0]["meetings"]


def alone_seconds(local, processes):
    """Of the same step without its exchange: what half of the steps take of which each waits for the latest process; where
    they take turns, what their cores need for all."""
    cores = min(processes, os.cpu_count() or 1)
    if processes > cores:
        return sum(one["cpu_seconds"] for one in local) / cores
    within = lambda x: math.prod(sum(q <= x for q in one["quantiles"]) / len(one["quantiles"]) for one in local)
    return next(x for x in sorted(q for one in local for q in one["quantiles"]) if within(x) >= 0.5)


def measure(arguments):
    program = str(arguments.binaries / "bench_processes")
    launcher = shlex.split(arguments.mpirun)
    print("| workload | processes | a process alone | exchange | foretold | measured | measured / foretold |")
    print("|---|---|---|---|---|---|---|")
    worst = 1.0
    for processes in arguments.processes:
        together = [*launcher, "-n", str(processes)]
        timing = ["--seconds", str(arguments.seconds)]
        takes_turns = processes > (os.cpu_count() or 1)
        mean = ["--mean"] if takes_turns else []  # medians leave out the turns of others
        sums = exchanges(together, program, ["--seconds", "1", *mean], processes) if processes > 1 else []
        for workload in arguments.workloads:
            rows, shards = ROWS[workload] // processes, SHARDS // processes
            part = [program, "step", workload, "--rows", str(rows), "--shards", str(shards), *timing, *mean]
            part += turns_of(processes)
            local = alone_seconds([one[0] for one in at_once(part, processes)], processes)
            whole = said([*together, program, "step", workload, "--shards", str(SHARDS), *timing, *mean])[0]
            exchange = exchange_seconds(sums, whole)
            foretold = local + exchange
            ratio = whole["seconds"] / foretold
            worst = max(worst, ratio, 1 / ratio)
            print(
                f"| {workload} | {processes} | {1e3 * local:.2f} ms | {1e3 * exchange:.2f} ms "
                f"| {1e3 * foretold:.2f} ms | {1e3 * whole['seconds']:.2f} ms | {ratio:.2f} |",
                flush=True,
            )
    print(f"\nworst {worst:.2f}")


def solve(rows, values):
    """Least squares by the normal equations."""
    size = len(rows[0])
    matrix = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    right = [sum(r[i] * v for r, v in zip(rows, values)) for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(matrix[k][i]))
        matrix[i], matrix[pivot], right[i], right[pivot] = matrix[pivot], matrix[i], right[pivot], right[i]
        for k in range(size):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[i])]
                right[k] -= factor * right[i]
    return [right[i] / matrix[i][i] for i in range(size)]


def plans(arguments):
    """Gradients take the place of activations as the backward pass goes on: a step needs the larger of the two."""
    program = str(arguments.binaries / "bench_processes")
    features, memory, gradients, operations, counts = [], [], [], [], []
    for depth, width, tokens, rows in itertools.product((2, 4, 8), (128, 256, 512), (64, 256), (1, 4)):
        gpt = Gpt(depth, width, 512, tokens)
        named = {"depth": depth, "width": width, "heads": width // 64, "vocabulary": 512, "rows": rows, "tokens": tokens}
        plan = said([program, "plan", *itertools.chain(*((f"--{k}", str(v)) for k, v in named.items()))])[0]
        values = rows * tokens * width
        features.append([depth * values, values, rows * tokens * 512])
        memory.append(plan["shard_bytes"] + plan["scratch_bytes"] + plan["arena_bytes"])
        gradients.append(4 * plan["parameters"])
        operations.append(plan["flops"] / gpt.flops(rows))
        counts.append(plan["parameters"] / gpt.parameters())
    of_activations = [i for i in range(len(memory)) if memory[i] > 1.2 * gradients[i]]
    known = of_activations[::2]
    fit = solve([features[i] for i in known], [memory[i] for i in known])
    print("activations = {:.1f} depth tokens width + {:.1f} tokens width + {:.1f} tokens vocabulary".format(*fit))
    foretold = [max(g, sum(f * x for f, x in zip(fit, row))) for g, row in zip(gradients, features)]
    ratios = [foretold[i] / memory[i] for i in range(len(memory)) if i not in known]
    print(f"bytes of step, foretold / plan, of {len(ratios)} sizes not fitted: {min(ratios):.2f} to {max(ratios):.2f}")
    print(f"operations, plan / formula: {min(operations):.3f} to {max(operations):.3f}")
    print(f"parameters, plan / formula: {min(counts):.3f} to {max(counts):.3f}")


# What a device of a large machine is taken to be: half of the makers' peak of products in bfloat16 and what links reach.
LARGE = Machine(
    flops=0.45e15,
    memory_bandwidth=2.6e12,
    memory=80e9,
    inside=Link(5e-6, 360e9),
    between=Link(10e-6, 40e9),
    devices_a_host=8,
)
MODELS = {
    "1 B": Gpt(depth=24, width=1792),
    "7 B": Gpt(depth=32, width=4096),
    "70 B": Gpt(depth=80, width=8448),
}
BATCH = 4096  # sequences a step
OVERLAP = 0.8  # of the backward pass, behind which gradients travel


def layouts(devices, overlap):
    """Of each kind, by name."""
    for zero in range(4):
        if devices <= BATCH:
            yield f"data, ZeRO {zero}" if zero else "data", Layout(data=devices, zero=zero, overlap=overlap)
    for tensor in (8,):
        if devices >= tensor:
            yield f"tensor {tensor} x data, ZeRO 1", Layout(
                data=devices // tensor, tensor=tensor, zero=1, microbatches=accumulated(devices // tensor, 4), overlap=overlap
            )
    for pipeline in (4, 8):
        if devices >= 8 * pipeline:
            data = devices // (8 * pipeline)
            yield f"tensor 8 x pipeline {pipeline} x data, ZeRO 1", Layout(
                data=data, tensor=8, pipeline=pipeline, zero=1, microbatches=accumulated(data, 1), overlap=overlap
            )


def accumulated(data, sequences):
    """Microbatches, so that a replica has that many sequences at once."""
    return max(1, BATCH // data // sequences)


def with_microbatches(layout):
    """Pure data layouts: as many microbatches as leave four sequences, or one, at once."""
    if layout.tensor > 1:
        return layout
    return Layout(**{**layout.__dict__, "microbatches": accumulated(layout.data, 4)})


def tables(_):
    print("| model | devices | layout | step | with overlap | exchange | idle | memory | fits | sent a step | efficiency |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, gpt in MODELS.items():
        for devices in (8, 64, 512, 4096):
            overlapped = {kind: with_microbatches(layout) for kind, layout in layouts(devices, OVERLAP)}
            for kind, layout in layouts(devices, 0.0):
                layout = with_microbatches(layout)
                p = predict(LARGE, gpt, layout, BATCH)
                e = efficiency(LARGE, gpt, layout, BATCH)
                print(
                    f"| {name} | {devices} | {kind} | {p.step:.2f} s "
                    f"| {predict(LARGE, gpt, overlapped[kind], BATCH).step:.2f} s | {100 * p.exposed / p.step:.0f} % "
                    f"| {100 * p.idle / p.step:.0f} % | {p.memory_bytes / 1e9:.0f} GB "
                    f"| {'yes' if p.memory_bytes < LARGE.memory else 'no'} | {p.traffic / 1e9:.1f} GB | {e:.2f} |"
                )
    print("\n### Where each layout stops paying\n")
    print(f"The most devices at which it fits and at least {ENOUGH:.0%} of a device's time is its share of the model.\n")
    print("| model | layout | nothing overlaps | with overlap |")
    print("|---|---|---|---|")
    for name, gpt in MODELS.items():
        ends = {}
        for column, overlap in enumerate((0.0, OVERLAP)):
            for devices in powers(BATCH):
                for kind, layout in layouts(devices, overlap):
                    layout = with_microbatches(layout)
                    row = ends.setdefault(kind, [0, 0])
                    fits = predict(LARGE, gpt, layout, BATCH).memory_bytes < LARGE.memory
                    if fits and efficiency(LARGE, gpt, layout, BATCH) >= ENOUGH:
                        row[column] = devices
        for kind, (plain, overlapped) in ends.items():
            print(f"| {name} | {kind} | {plain or 'never'} | {overlapped or 'never'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    of_list = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    command = commands.add_parser("measure")
    command.add_argument("binaries", type=pathlib.Path)
    command.add_argument("--workloads", type=of_list(str), default=["mlp", "cnn", "gpt"])
    command.add_argument("--processes", type=of_list(int), default=[1, 2, 4])
    command.add_argument("--seconds", type=float, default=4, help="of steps, for each number")
    command.add_argument("--mpirun", default="mpirun --oversubscribe")
    command.set_defaults(run=measure)
    command = commands.add_parser("plans")
    command.add_argument("binaries", type=pathlib.Path)
    command.set_defaults(run=plans)
    commands.add_parser("predict").set_defaults(run=tables)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
