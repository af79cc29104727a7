"""Writes jax_lines.safetensors.gz: every line of the tables evaluated, differentiated and batched in JAX 0.10.2.

    LOCKSTEP_DUMP=/tmp/lines.json build/release/bin/tests_golden --no-skip -tc="write the lines of every function*"
    python tests/golden/functions/jax_lines.py /tmp/lines.json

A tensor a case: the hash of its inputs, 8 bytes, then the bytes of every result of every run, in the order of the dump.
A line says what it is in JAX. Without 64-bit operands it is evaluated with JAX's 32-bit defaults, which are Lockstep's;
with them 64-bit types are enabled, and a result may be narrower here where the width is JAX's default alone.
"""

import argparse
import json
import os
import pathlib
import struct
import sys
import warnings

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false --xla_backend_optimization_level=0"

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import jax  # noqa: E402
import numpy as np  # noqa: E402

import references  # noqa: E402
from jax_values import array_of, bytes_of, dtype_of, is_inexact, read_tensors, write_tensors  # noqa: E402

TOGETHER = 16
GOLDEN = pathlib.Path(__file__).with_name("jax_lines.safetensors.gz")
jax.config.update("jax_default_matmul_precision", "highest")


def function_of(case):
    """The line's expression as a function of its operands."""
    names = ["x", "y", "z", "w"][: case["operands"]]
    space = dict(vars(references), dtype=dtype_of(case["dtype"]))
    f = eval(f"lambda {', '.join(names)}: {case['jax']}", space)  # noqa: S307: the table's own text

    def results(*operands):
        return [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(f(*map(jax.numpy.asarray, operands)))]

    return results


def run_function(case, way):
    f = function_of(case)
    if way == "vmap":
        return jax.vmap(f)
    if way == "forward":
        return f
    count, active = case["operands"], case["active"]

    def vjp(*arguments):
        def of_active(*moving):
            operands = list(arguments[:count])
            for i, value in zip(active, moving):
                operands[i] = value
            return [y for y in f(*operands) if is_inexact(str(y.dtype))]

        return jax.vjp(of_active, *(arguments[i] for i in active))[1](list(arguments[count:]))

    return vjp


def is_wide(dtype):
    return dtype in ("int64", "uint64", "float64", "complex128")


def narrowed(array):
    """With a width that is JAX's default alone taken back."""
    narrow = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
    return array.astype(narrow.get(str(array.dtype), array.dtype))


def defaults(case, run, arguments):
    """The dtypes that the results have with 32-bit defaults and operands."""
    with jax.enable_x64(False):
        return [str(y.dtype) for y in run_function(case, run["way"])(*map(narrowed, arguments))]


def may_narrow(run, result):
    """A float64 operand asks for a float64 result; the width of an integer one may still be a default."""
    given = [entry["dtype"] for entry in run["inputs"]]
    return any(map(is_wide, given)) and not (
        is_inexact(result["dtype"]) and any(is_wide(dtype) and is_inexact(dtype) for dtype in given)
    )


def is_wide_case(case):
    return any(is_wide(entry["dtype"]) for run in case["runs"] for entry in run["inputs"] + run["results"])


def evaluate(cases):
    """The tensors of cases, all with 64-bit types or all without, compiled as one program."""
    functions = [run_function(case, run["way"]) for case in cases for run in case["runs"]]
    arguments = [[array_of(entry) for entry in run["inputs"]] for case in cases for run in case["runs"]]

    def everything(arguments):
        return [f(*x) for f, x in zip(functions, arguments)]

    with jax.enable_x64(is_wide_case(cases[0])):
        results = iter(jax.tree.map(np.asarray, jax.jit(everything)(arguments)))
    tensors = {}
    for case in cases:
        runs = b"".join(bytes_of_run(case, run, next(results)) for run in case["runs"])
        tensors[case["name"]] = struct.pack("<Q", case["hash"]) + runs
    return tensors


def bytes_of_run(case, run, results):
    if len(results) != len(run["results"]):
        raise ValueError(f"{run['way']}: {len(results)} results, expected {len(run['results'])}")
    data = b""
    for i, (result, entry) in enumerate(zip(results, run["results"])):
        if str(result.dtype) != entry["dtype"] and may_narrow(run, entry):
            arguments = [array_of(given) for given in run["inputs"]]
            if entry["dtype"] == defaults(case, run, arguments)[i]:
                result = narrowed(result)
        try:
            data += bytes_of(result, entry)
        except ValueError as error:
            raise ValueError(f"{run['way']}, result {i}: {error}") from error
    return data


def evaluate_apart(cases):
    """The same where some fail; those are named."""
    tensors = {}
    for case in cases:
        try:
            tensors |= evaluate([case])
        except Exception as error:  # Every line that does not fit is named, not the first alone.
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{case['name']} {case['jax']}: {text}", file=sys.stderr, flush=True)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--keep", action="store_true", help="what has not changed is not evaluated again")
    options = parser.parse_args()
    if jax.__version__ != "0.10.2":
        sys.exit(f"this is JAX {jax.__version__}; the values are those of 0.10.2")
    warnings.simplefilter("ignore")
    present = read_tensors(GOLDEN) if options.keep else {}
    cases = json.loads(pathlib.Path(options.dump).read_text())
    tensors, groups = {}, {True: [], False: []}
    for case in cases:
        kept = present.get(case["name"])
        if kept is not None and struct.unpack("<Q", kept[:8])[0] == case["hash"]:
            tensors[case["name"]] = kept
        else:
            groups[is_wide_case(case)].append(case)
    for group in groups.values():
        for i in range(0, len(group), TOGETHER):
            some = group[i : i + TOGETHER]
            try:
                tensors |= evaluate(some)
            except Exception:
                tensors |= evaluate_apart(some)
    write_tensors(GOLDEN, tensors)
    print(f"{len(tensors)} cases, {GOLDEN.stat().st_size} bytes")
    if len(tensors) < len(cases):
        sys.exit(f"{len(cases) - len(tensors)} cases failed")


if __name__ == "__main__":
    main()
