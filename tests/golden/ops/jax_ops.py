"""Writes jax/<op>.txt: an op's samples evaluated, differentiated and batched in JAX 0.10.2.

    pip install jax==0.10.2 mpmath
    python tests/golden/ops/jax_ops.py build/release/bin/tests_golden log2

A line "<case> <hash of what its values depend on>", then a line "<run> | <type> | <values>" for each result of each run.
Without names of ops, those samples are evaluated that are new or have changed.
"""

import argparse
import json
import os
import pathlib
import sys
import warnings

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_allow_excess_precision=false"

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

from jax_functions import function_of  # noqa: E402
from jax_values import array_of, dump_of, is_inexact, read_cases, result_line, write_cases  # noqa: E402

FOLDER = pathlib.Path(__file__).with_name("jax")
BATCH = 3


def local_function(case, run):
    """The run as a function of one replica's arrays."""
    op = function_of(case)
    count = len(case["inputs"])
    active = [i for i, a in enumerate(case["active"]) if a]
    inexact = [i for i, t in enumerate(case["outputs"]) if is_inexact(t["dtype"])]

    def primal(x):
        def of_active(*moving):
            operands = list(x)
            for i, value in zip(active, moving):
                operands[i] = value
            y = op(*operands)
            return tuple(y[i] for i in inexact)

        return of_active, tuple(x[i] for i in active)

    def jvp(*arguments):
        f, x = primal(arguments[:count])
        return jax.jvp(f, x, arguments[count:])[1]

    def vjp(*arguments):
        f, x = primal(arguments[:count])
        return jax.vjp(f, *x)[1](tuple(arguments[count:]))

    way = run["way"]
    if way == "jvp":
        return jvp
    if way == "vjp":
        return vjp
    if way == "vmap":
        return jax.vmap(op, in_axes=[0 if b else None for b in run["batched"]], axis_size=BATCH)
    if way == "vmap_vjp":
        return jax.vmap(vjp, axis_size=BATCH)
    return op


def mapped(case, run):
    """The run as a function of whole arrays: one leading dimension for each mesh axis that the type varies along."""
    local = local_function(case, run)
    if not case["axes"]:
        return local
    names = [name for name, _ in case["axes"]]
    sizes = [size for _, size in case["axes"]]
    mesh = Mesh(np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), names)

    def axes_of(entry):
        varying = entry["varying"].split(",")
        return [name for name in names if name in varying]

    types, results = local_types(case, run)

    def body(*arguments):
        cut = [a.reshape(a.shape[len(axes_of(t)) :]) for a, t in zip(arguments, types)]
        return tuple(y.reshape((1,) * len(axes_of(t)) + y.shape) for y, t in zip(local(*cut), results))

    return jax.shard_map(
        body,
        mesh=mesh,
        in_specs=tuple(PartitionSpec(*axes_of(t)) for t in types),
        out_specs=tuple(PartitionSpec(*axes_of(t)) for t in results),
    )


def local_types(case, run):
    """The operands and results of a run as the case's local types, for their varying axes alone."""
    active = [t for t, a in zip(case["inputs"], case["active"]) if a]
    inexact = [t for t in case["outputs"] if is_inexact(t["dtype"])]
    way = run["way"]
    if way == "jvp":
        return case["inputs"] + active, inexact
    if way in ("vjp", "vmap_vjp"):
        return case["inputs"] + inexact, active
    return case["inputs"], case["outputs"]


def evaluate(case):
    """The lines of a case."""
    head = f"{case['name']} {case['hash']}"
    if all(0 in entry["shape"] for run in case["runs"] for entry in run["results"]):
        # XLA's collectives refuse arrays without elements.
        return [head, *(f" {run['label']} | {entry['type']} |" for run in case["runs"] for entry in run["results"])]
    functions = [mapped(case, run) for run in case["runs"]]
    arguments = [[array_of(entry) for entry in run["inputs"]] for run in case["runs"]]

    @jax.jit
    def everything(arguments):
        return [f(*x) for f, x in zip(functions, arguments)]

    lines = [head]
    for run, results in zip(case["runs"], everything(arguments)):
        if len(results) != len(run["results"]):
            raise ValueError(f"{run['way']}: {len(results)} results, expected {len(run['results'])}")
        lines += [result_line(run["label"], result, entry) for result, entry in zip(results, run["results"])]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program tests_golden")
    parser.add_argument("op", nargs="*", help="which ops' samples are evaluated; else those that have changed")
    parser.add_argument("--all", action="store_true", help="evaluate all, which takes half an hour")
    options = parser.parse_args()
    if jax.__version__ != "0.10.2":
        sys.exit(f"this is JAX {jax.__version__}; the values are those of 0.10.2")
    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
    present = read_cases(FOLDER)
    families, evaluated, failed = {}, 0, []
    for case in dump_of(options.program, "write the samples of every op*"):
        if not case["runs"]:
            continue
        kept = present.get(case["name"])
        same = kept is not None and kept[0].endswith(" " + case["hash"])
        lines = kept
        if options.all or case["op"] in options.op or (not options.op and not same):
            try:
                lines = evaluate(case)
                evaluated += 1
            except Exception as error:  # Every op that does not fit is named, not the first alone.
                failed.append(case["name"])
                text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                print(f"{case['name']} {json.dumps(case['attrs'])[:120]}: {text}", file=sys.stderr)
        if lines is not None:
            families.setdefault(case["op"], []).append(lines)
    write_cases(FOLDER, families, "JAX 0.10.2's values, by jax_ops.py")
    print(f"{evaluated} cases of {sum(map(len, families.values()))} evaluated")
    if failed:
        sys.exit(f"{len(failed)} cases failed")


if __name__ == "__main__":
    main()
