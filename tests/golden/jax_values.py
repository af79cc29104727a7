"""What the generators of golden values have in common: arrays of a dump, and the files that results are kept in."""

import json
import os
import pathlib
import subprocess
import tempfile

import jax
import ml_dtypes
import numpy as np


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def is_inexact(name):
    return "float" in name or "complex" in name


def array_of(entry):
    """An array of the dump."""
    data = bytes.fromhex(entry["hex"])
    if entry["dtype"] == "key":
        words = np.frombuffer(data, np.uint32).reshape([*entry["shape"], 2])
        return jax.random.wrap_key_data(words, impl="threefry2x32")
    return np.frombuffer(data, dtype_of(entry["dtype"])).reshape(entry["shape"])


def number(value):
    """Enough digits for the value's dtype, of 16-bit floats all."""
    text = str(value if value.dtype.itemsize > 2 else np.float32(value))
    return text.removesuffix(".0").replace(".0e", "e")


def numbers(array):
    """The elements as they are written, row by row."""
    kind = array.dtype.kind
    if kind == "b":
        return ["1" if value else "0" for value in array.ravel()]
    if kind in "iu":
        return [str(value) for value in array.ravel().tolist()]
    if kind == "c":
        return [number(part) for value in array.ravel() for part in (value.real, value.imag)]
    return [number(value) for value in array.ravel()]


def result_line(label, result, entry):
    """A result, once its type is that of the dump."""
    if list(result.shape) != entry["shape"]:
        raise ValueError(f"shape {list(result.shape)}, expected {entry['shape']}")
    if entry["dtype"] == "key":
        words = np.asarray(jax.random.key_data(result)).astype(np.uint64)
        array = words[..., 0] << np.uint64(32) | words[..., 1]  # as the program's references hold keys
    else:
        array = np.asarray(result)
        if array.dtype != dtype_of(entry["dtype"]):
            raise ValueError(f"dtype {array.dtype}, expected {entry['dtype']}")
    return " ".join([f" {label} | {entry['type']} |", *numbers(array)])


def dump_of(program, test_case):
    """The cases that a test program writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "dump.json"
        command = [program, "--no-skip", f"-tc={test_case}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"LOCKSTEP_DUMP": str(path)})
        return json.loads(path.read_text())


def read_cases(folder):
    """By name, the lines of every case in a folder's files, its head first."""
    cases = {}
    for path in sorted(folder.glob("*.txt")):
        lines = []
        for line in path.read_text().splitlines():
            if not line.startswith((" ", "#")):
                lines = cases[line.rpartition(" ")[0]] = []
            if not line.startswith("#"):
                lines.append(line)
    return cases


def write_cases(folder, families, head):
    """A file a family: the lines of its cases, in their order. Files of families that are no more go."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.txt"):
        if path.stem not in families:
            path.unlink()
    for family, cases in families.items():
        lines = [f"# {head}", *(line for case in cases for line in case)]
        (folder / f"{family}.txt").write_text("\n".join(lines) + "\n")
