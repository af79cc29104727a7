"""Compares the losses of each system's first five steps, over several draws of the batches, with JAX's in float64.

    python benches/losses.py build/release/bin [--workloads resnet20] [--seeds 1,2,3,4,5,6,7,8] [--systems lockstep,jax]

Steps that multiply rounding errors bring losses apart that all are right. How far from the losses without rounding errors
is what tells an inexact system from an unlucky draw; how far float32 systems are from each other, what can be asked of
one. Nothing is timed. benches/compare.py says what Python needs.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

import compare
from tables import difference

EXACT = "float64"
DEFAULT_SYSTEMS = "lockstep,lockstep V=8,jax,torch eager-tuned"


def first_losses(name, command):
    process = compare.Process(name, command)
    process.close()
    return process.first["losses"]


def losses_of(binaries, folder, workload, seed, systems):
    """The losses of steps 1 to 5, by system."""
    draw = [str(binaries / "bench_train_step"), workload, "--folder", folder, "--seed", str(seed), "--draw"]
    subprocess.run(draw, check=True)
    exact = [sys.executable, str(compare.PEERS / "jax_step.py"), folder, workload, "float64"]
    commands = {EXACT: exact, **{n: c for n, c in compare.systems(binaries, folder, workload) if n in systems}}
    return {name: first_losses(name, command) for name, command in commands.items()}


def table(draws):
    """A row a system: how far it is from each system, the median and the most of all draws."""
    names = list(draws[0])
    lines = [f"{'':20}" + "".join(f"{name:>22}" for name in names)]
    for name in names[1:]:
        line = f"{name:20}"
        for other in names:
            apart = [difference(draw[name], draw[other]) for draw in draws]
            line += f"{statistics.median(apart):12.1e}, {max(apart):.1e} "
        lines.append(line)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--workloads", default="resnet20,resnet18")
    parser.add_argument("--seeds", default="1,2,3,4,5,6,7,8", help="of the batches")
    parser.add_argument("--systems", default=DEFAULT_SYSTEMS)
    parser.add_argument("--inputs", type=pathlib.Path, default=pathlib.Path("build/benches"))
    a = parser.parse_args()
    for workload in a.workloads.split(","):
        draws = []
        for seed in map(int, a.seeds.split(",")):
            folder = a.inputs / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            draws.append(losses_of(a.binaries, str(folder), workload, seed, a.systems.split(",")))
        print(f"{workload}, {len(draws)} draws: relative differences of losses, median and most of all draws")
        print(table(draws), flush=True)


main()
