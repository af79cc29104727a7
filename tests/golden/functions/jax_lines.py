"""Writes jax/<table>.txt: every line of the tables evaluated, differentiated and batched in JAX 0.10.2.

    pip install jax==0.10.2 keras==3.15.1
    python tests/golden/functions/jax_lines.py build/release/bin/tests_golden hypot

A line "<case> <hash of what its values depend on>", then a line "<run> | <type> | <values>" for each result of each run.
Without names of functions, those lines are evaluated that are new or have changed. A table's line says what it is in JAX. Without 64-bit operands it is evaluated with JAX's 32-bit defaults, which are Lockstep's;
with them 64-bit types are enabled, and a result may be narrower here where the width is JAX's default alone.
"""

import argparse
import os
import pathlib
import sys
import warnings

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false --xla_backend_optimization_level=0"

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import jax  # noqa: E402
import numpy as np  # noqa: E402

import references  # noqa: E402
from jax_values import array_of, dtype_of, dump_of, is_inexact, read_cases, result_line, write_cases  # noqa: E402

TOGETHER = 16
FOLDER = pathlib.Path(__file__).with_name("jax")
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
    """The lines of cases, all with 64-bit types or all without, compiled as one program."""
    functions = [run_function(case, run["way"]) for case in cases for run in case["runs"]]
    arguments = [[array_of(entry) for entry in run["inputs"]] for case in cases for run in case["runs"]]

    def everything(arguments):
        return [f(*x) for f, x in zip(functions, arguments)]

    with jax.enable_x64(is_wide_case(cases[0])):
        results = iter(jax.tree.map(np.asarray, jax.jit(everything)(arguments)))
    evaluated = {}
    for case in cases:
        lines = [line for run in case["runs"] for line in lines_of_run(case, run, next(results))]
        evaluated[case["name"]] = [f"{case['name']} {case['hash']}", *lines]
    return evaluated


def lines_of_run(case, run, results):
    if len(results) != len(run["results"]):
        raise ValueError(f"{run['way']}: {len(results)} results, expected {len(run['results'])}")
    lines = []
    for i, (result, entry) in enumerate(zip(results, run["results"])):
        if str(result.dtype) != entry["dtype"] and may_narrow(run, entry):
            arguments = [array_of(given) for given in run["inputs"]]
            if entry["dtype"] == defaults(case, run, arguments)[i]:
                result = narrowed(result)
        try:
            lines.append(result_line(run["way"], result, entry))
        except ValueError as error:
            raise ValueError(f"{run['way']}, result {i}: {error}") from error
    return lines


def evaluate_apart(cases):
    """The same where some fail; those are named."""
    evaluated = {}
    for case in cases:
        try:
            evaluated |= evaluate([case])
        except Exception as error:  # Every line that does not fit is named, not the first alone.
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{case['name']} {case['jax']}: {text}", file=sys.stderr, flush=True)
    return evaluated


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program tests_golden")
    parser.add_argument("function", nargs="*", help="whose lines are evaluated; else those that have changed")
    parser.add_argument("--all", action="store_true", help="evaluate all")
    options = parser.parse_args()
    if jax.__version__ != "0.10.2":
        sys.exit(f"this is JAX {jax.__version__}; the values are those of 0.10.2")
    warnings.simplefilter("ignore")
    present = read_cases(FOLDER)
    cases = dump_of(options.program, "write the lines of every function*")
    groups = {True: [], False: []}
    for case in cases:
        kept = present.get(case["name"])
        same = kept is not None and kept[0].endswith(" " + case["hash"])
        if options.all or case["function"] in options.function or (not options.function and not same):
            groups[is_wide_case(case)].append(case)
    evaluated = {}
    for group in groups.values():
        for i in range(0, len(group), TOGETHER):
            some = group[i : i + TOGETHER]
            try:
                evaluated |= evaluate(some)
            except Exception:
                evaluated |= evaluate_apart(some)
    families, missing = {}, 0
    for case in cases:
        lines = evaluated.get(case["name"], present.get(case["name"]))
        if lines is None:
            missing += 1
        else:
            families.setdefault(case["family"], []).append(lines)
    write_cases(FOLDER, families, "JAX 0.10.2's values, by jax_lines.py")
    print(f"{len(evaluated)} cases of {len(cases)} evaluated")
    if missing:
        sys.exit(f"{missing} cases failed")


if __name__ == "__main__":
    main()
