"""Python's safetensors reads a file, and writes what it has read into another.

    python3 tests/data/safetensors_python.py PACKAGES FROM TO

Prints a line a tensor, in order of name: name, dtype, shape, bytes. PACKAGES is where the package lies, or is put by pip
where it is not installed; without it and a way to PyPI the exit code is 77.
"""

import importlib.util
import pathlib
import subprocess
import sys

packages, read, written = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.append(packages)
if importlib.util.find_spec("safetensors") is None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if subprocess.run(pip + ["--target", packages, "safetensors==0.7.0"]).returncode != 0:
        sys.exit(77)
    importlib.invalidate_caches()
import safetensors

names = {"BOOL": "bool", "U8": "uint8", "I64": "int64"}
names |= {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
tensors = dict(safetensors.deserialize(read.read_bytes()))
for name, tensor in sorted(tensors.items()):
    shape = ",".join(map(str, tensor["shape"]))
    print(name, tensor["dtype"], f"[{shape}]", bytes(tensor["data"]).hex())
written.write_bytes(
    safetensors.serialize(
        {
            name: {"dtype": names[tensor["dtype"]], "shape": tensor["shape"], "data": bytes(tensor["data"])}
            for name, tensor in tensors.items()
        }
    )
)
