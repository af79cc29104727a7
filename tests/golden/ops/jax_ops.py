"""Writes jax_ops.safetensors.gz: every op's samples evaluated, differentiated and batched in JAX 0.10.2.

    LOCKSTEP_DUMP=/tmp/ops.json build/release/bin/tests_golden --no-skip -tc="write the samples of every op*"
    python tests/golden/ops/jax_ops.py /tmp/ops.json

A tensor a case: the hash of its inputs, 8 bytes, then the bytes of every result of every run, in the order of the dump.
Runs again to the same file. With --keep, cases whose inputs are those of the present file are not evaluated again; with
--only add,mul no others than these ops'.
"""

import argparse
import json
import os
import pathlib
import struct
import sys
import time
import warnings

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_allow_excess_precision=false"

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

from jax_functions import function_of  # noqa: E402
from jax_values import array_of, bytes_of, is_inexact, read_tensors, write_tensors  # noqa: E402

GOLDEN = pathlib.Path(__file__).with_name("jax_ops.safetensors.gz")
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
    """The tensor of a case."""
    data = struct.pack("<Q", case["hash"])
    if all(0 in entry["shape"] for run in case["runs"] for entry in run["results"]):
        return data  # XLA's collectives refuse arrays without elements.
    functions = [mapped(case, run) for run in case["runs"]]
    arguments = [[array_of(entry) for entry in run["inputs"]] for run in case["runs"]]

    @jax.jit
    def everything(arguments):
        return [f(*x) for f, x in zip(functions, arguments)]

    for run, results in zip(case["runs"], everything(arguments)):
        if len(results) != len(run["results"]):
            raise ValueError(f"{run['way']}: {len(results)} results, expected {len(run['results'])}")
        for result, entry in zip(results, run["results"]):
            data += bytes_of(result, entry)
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if jax.__version__ != "0.10.2":
        sys.exit(f"this is JAX {jax.__version__}; the values are those of 0.10.2")
    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
    present = read_tensors(GOLDEN)
    only = set(filter(None, options.only.split(",")))
    tensors, failed, written = {}, [], time.monotonic()
    for case in json.loads(pathlib.Path(options.dump).read_text()):
        name, kept = case["name"], present.get(case["name"])
        same = kept is not None and struct.unpack("<Q", kept[:8])[0] == case["hash"]
        if (options.keep and same and case["op"] not in only) or (only and not options.keep and case["op"] not in only):
            if kept is not None:
                tensors[name] = kept
            continue
        try:
            tensors[name] = evaluate(case)
        except Exception as error:  # Every op that does not fit is named, not the first alone.
            failed.append(name)
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{name} {json.dumps(case['attrs'])[:120]}: {text}", file=sys.stderr)
        if time.monotonic() - written > 60:
            write_tensors(GOLDEN, present | tensors)
            written = time.monotonic()
    write_tensors(GOLDEN, tensors)
    print(f"{len(tensors)} cases, {GOLDEN.stat().st_size} bytes")
    if failed:
        sys.exit(f"{len(failed)} cases failed")


if __name__ == "__main__":
    main()
