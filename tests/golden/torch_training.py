"""Ten training steps of two models in PyTorch: the reference values of training_test.cpp.

usage: torch_training.py FASHION_MNIST_DIR OUTPUT_DIR

Batches are rows 0..639 of the real training images, 64 a step, in file order. Initial weights are a formula both sides
compute (see `weights`), so that only the results are stored: losses of each step in float32 and float64
(torch_losses.json), and of each trainable weight after ten steps in float64 what `summary` says (torch_weights.json;
float32 results are compared with the same, after this script has checked that PyTorch's own float32 run stays within
2e-5 of them). Needs torch 2.11.0 and numpy.
"""

import gzip
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS, BATCH = 10, 64

SHAPES = {
    "mlp": {
        "dense_0/kernel": (784, 512), "dense_0/bias": (512,),
        "dense_1/kernel": (512, 512), "dense_1/bias": (512,),
        "head/kernel": (512, 10), "head/bias": (10,),
    },
    "cnn": {
        "block_0/conv/kernel": (3, 3, 1, 32), "block_0/norm/beta": (32,), "block_0/norm/gamma": (32,),
        "block_1/conv/kernel": (3, 3, 32, 64), "block_1/norm/beta": (64,), "block_1/norm/gamma": (64,),
        "dense/kernel": (3136, 128), "dense/bias": (128,),
        "head/kernel": (128, 10), "head/bias": (10,),
    },
}


def splitmix64(x):
    x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def weights(model):
    """Leaf i, element k: uniform on [-limit, limit) from splitmix64(2^32 i + k), limit = sqrt(6 / fan_in) of kernels,
    0.1 of the others; gamma is shifted by 1. The float32 values are the rounded float64 ones, and both runs start from
    those."""
    leaves = {}
    for i, (path, shape) in enumerate(sorted(SHAPES[model].items())):
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            bits = splitmix64(np.arange(count, dtype=np.uint64) + np.uint64(i << 32))
        unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        fan_in = int(np.prod(shape[:-1]))
        limit = np.sqrt(6.0 / fan_in) if path.endswith("kernel") else 0.1
        values = unit * limit + (1.0 if path.endswith("gamma") else 0.0)
        leaves[path] = values.astype(np.float32).astype(np.float64).reshape(shape)
    return leaves


def forward(model, w, x):
    if model == "mlp":
        h = x.reshape(x.shape[0], -1)
        for name in ("dense_0", "dense_1"):
            h = F.relu(h @ w[f"{name}/kernel"] + w[f"{name}/bias"])
        return h @ w["head/kernel"] + w["head/bias"]
    h = x.permute(0, 3, 1, 2)
    for name in ("block_0", "block_1"):
        h = F.conv2d(h, w[f"{name}/conv/kernel"].permute(3, 2, 0, 1), padding=1)
        # PyTorch's channels-last batch_norm adds float32 row by row and would be 4e-5 off.
        h = h.contiguous(memory_format=torch.contiguous_format)
        h = F.batch_norm(h, None, None, w[f"{name}/norm/gamma"], w[f"{name}/norm/beta"], training=True, eps=1e-3)
        h = F.max_pool2d(F.relu(h), 2)
    h = h.permute(0, 2, 3, 1).reshape(x.shape[0], -1)
    h = F.relu(h @ w["dense/kernel"] + w["dense/bias"])
    return h @ w["head/kernel"] + w["head/bias"]


def summary(value):
    """A weight's norm, 8 of its elements, and its sums with 16 rows of signs, which all elements are in: row j's sign of
    element k is the lowest bit of splitmix64(2^40 (j + 1) + k). The mean square of such sums of a difference is expected to
    be the square of its norm."""
    flat = value.ravel()
    places = np.arange(flat.size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        signs = [1.0 - 2.0 * (splitmix64(places + np.uint64((j + 1) << 40)) & np.uint64(1)) for j in range(16)]
    return {"norm": float(np.linalg.norm(flat)), "elements": flat[:: max(flat.size // 8, 1)][:8].tolist(),
            "sums": [float(np.sum(sign * flat)) for sign in signs]}


def train(model, optimizer, dtype, images, labels):
    w = {path: torch.tensor(value, dtype=dtype, requires_grad=True) for path, value in weights(model).items()}
    if optimizer == "sgd":
        step = torch.optim.SGD(w.values(), lr=0.01, momentum=0.9)
    else:
        step = torch.optim.AdamW(w.values(), lr=1e-3, weight_decay=1e-2)
    losses = []
    for i in range(STEPS):
        rows = slice(BATCH * i, BATCH * (i + 1))
        step.zero_grad()
        loss = F.cross_entropy(forward(model, w, images[rows].to(dtype)), labels[rows])
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses, {path: value.detach().numpy() for path, value in w.items()}


def main(data, output):
    raw = gzip.open(data / "train-images-idx3-ubyte.gz").read()[16 : 16 + STEPS * BATCH * 784]
    images = np.frombuffer(raw, np.uint8).astype(np.float32).reshape(-1, 28, 28, 1) / np.float32(255)
    labels = np.frombuffer(gzip.open(data / "train-labels-idx1-ubyte.gz").read()[8 : 8 + STEPS * BATCH], np.uint8)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))
    losses, summaries = {}, {}
    for model in ("mlp", "cnn"):
        for optimizer in ("sgd", "adamw"):
            name = f"{model}_{optimizer}"
            losses[f"{name}_float64"], exact = train(model, optimizer, torch.float64, images, labels)
            summaries[name] = {path: summary(value) for path, value in exact.items()}
            if optimizer == "sgd":
                losses[f"{name}_float32"], rounded = train(model, optimizer, torch.float32, images, labels)
                for path, value in rounded.items():
                    off = np.linalg.norm(value - exact[path]) / np.linalg.norm(exact[path])
                    assert off < 2e-5, (name, path, off)
                    print(f"{name} {path}: float32 is {off:.1e} from float64")
    (output / "torch_losses.json").write_text(json.dumps(losses, indent=1) + "\n")
    (output / "torch_weights.json").write_text(json.dumps(summaries, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
