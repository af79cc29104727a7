"""What the generators of golden values have in common: arrays of a dump, and the file that results are kept in."""

import gzip
import json
import struct

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


def bytes_of(result, entry):
    """A result's row-major bytes, once its type is that of the dump."""
    if list(result.shape) != entry["shape"]:
        raise ValueError(f"shape {list(result.shape)}, expected {entry['shape']}")
    if entry["dtype"] == "key":
        return np.asarray(jax.random.key_data(result)).tobytes()
    array = np.asarray(result)
    if array.dtype != dtype_of(entry["dtype"]):
        raise ValueError(f"dtype {array.dtype}, expected {entry['dtype']}")
    return np.ascontiguousarray(array).tobytes()


def read_tensors(path):
    if not path.exists():
        return {}
    data = gzip.decompress(path.read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    start = 8 + length
    return {
        name: data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        for name, entry in header.items()
    }


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, data in sorted(tensors.items()):
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    plain = struct.pack("<Q", len(text)) + text + b"".join(data for _, data in sorted(tensors.items()))
    path.write_bytes(gzip.compress(plain, compresslevel=9, mtime=0))
