"""Reads a .safetensors file with Python's safetensors and writes it again: safetensors_again.py FROM TO.

Without FROM it writes tests/checkpoint/samples/python.safetensors: safetensors_again.py TO. Takes numpy and ml_dtypes."""

import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

if len(sys.argv) == 3:
    tensors = load_file(sys.argv[1])
else:
    tensors = {
        "weight": np.array([[1, -2, 3.5], [0, -0.0, 1e-40]], np.float32),
        "narrow": np.array([1, -3, np.inf], ml_dtypes.bfloat16),
        "count": np.array([-(2**63), 2**53 + 1], np.int64),
        "scalar": np.array(0.25, np.float32),
        "empty": np.zeros((0, 3), np.float32),
    }
save_file(tensors, sys.argv[-1], {"format": "np"})
