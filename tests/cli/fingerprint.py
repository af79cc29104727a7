"""Recomputes a run's fingerprint from its saved arrays, with nothing but Python.

usage: fingerprint.py RUN/checkpoints/step-N
"""

import hashlib
import json
import pathlib
import struct
import sys

LONG_NAMES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}


def fingerprint(folder):
    raw = (folder / "arrays.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    leaves = {path[len("state/") :]: info for path, info in header.items() if path.startswith("state/")}
    digest = hashlib.sha256()
    for path in sorted(leaves, key=str.encode):
        info = leaves[path]
        digest.update(path.encode() + b"\0" + LONG_NAMES[info["dtype"]].encode() + b"\0")
        digest.update(struct.pack("<Q", len(info["shape"])))
        digest.update(b"".join(struct.pack("<Q", extent) for extent in info["shape"]))
        begin, end = info["data_offsets"]
        digest.update(data[begin:end])
    return digest.hexdigest()


if __name__ == "__main__":
    print("fingerprint", fingerprint(pathlib.Path(sys.argv[1])))
