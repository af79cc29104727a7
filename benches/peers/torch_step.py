"""usage: torch_step.py FOLDER WORKLOAD VARIANT. The training steps of benches/workloads.cpp in PyTorch.

VARIANT: eager or compiled (torch.compile), and with "-tuned" what PyTorch's guides recommend: channels_last images, fused
optimizers. A compiled step is two functions, as the backward pass is traced with the forward one: the loss, and the
optimizer's step, which "-tuned" leaves to the fused kernel. With "-autocast" at the end forward pass and loss stand under
torch.autocast to bfloat16.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile

# What an earlier run has compiled would make the first call look short.
cache = tempfile.TemporaryDirectory(prefix="torchinductor-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache.name

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import torch_layers
import torch_optimizers
from protocol import drawn_spec, inputs, optimizer_inputs, package_versions, serve, torch_like_models, uses_sgd

folder, workload, variant = sys.argv[1:4]
tuned, compiled = "-tuned" in variant, variant.startswith("compiled")
autocast = variant.endswith("-autocast")


class Conv(nn.Conv2d):
    def __init__(self, i, o, kernel=3, stride=1, padding=None, bias=False):
        super().__init__(i, o, kernel, stride, kernel // 2 if padding is None else padding, bias=bias)


class ConvNorm(nn.Module):
    def __init__(self, i, o, kernel=3, stride=1):
        super().__init__()
        self.conv, self.norm = Conv(i, o, kernel, stride), nn.BatchNorm2d(o)

    def forward(self, x):
        return self.norm(self.conv(x))


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.first, self.second = ConvNorm(i, o, 3, stride), ConvNorm(o, o)
        self.shortcut = nn.Identity() if i == o and stride == 1 else ConvNorm(i, o, 1, stride)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, filters, blocks):
        super().__init__()
        self.stem = ConvNorm(3, filters[0])
        channels = filters[0]
        for stage, width in enumerate(filters):
            layers = nn.ModuleDict()
            for block in range(blocks):
                layers[f"block_{block}"] = Residual(channels, width, 2 if stage > 0 and block == 0 else 1)
                channels = width
            self.add_module(f"stage_{stage}", layers)
        self.stages = len(filters)
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for stage in range(self.stages):
            for block in self.get_submodule(f"stage_{stage}").values():
                x = block(x)
        return self.head(x.mean((2, 3)))


class Mlp(nn.Module):
    def __init__(self, widths, activation):
        super().__init__()
        self.activation, self.layers = activation, len(widths) - 2
        for i in range(self.layers):
            self.add_module(f"dense_{i}", nn.Linear(widths[i], widths[i + 1]))
        self.head = nn.Linear(widths[-2], widths[-1])

    def forward(self, x):
        for i in range(self.layers):
            x = self.activation(self.get_submodule(f"dense_{i}")(x))
        return self.head(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_0, self.conv_1 = Conv(1, 32, bias=True), Conv(32, 64, bias=True)
        self.dense, self.head = nn.Linear(3136, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv_0(x)), 2)
        x = F.max_pool2d(F.relu(self.conv_1(x)), 2)
        return self.head(F.relu(self.dense(x.flatten(1))))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, causal

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm_0, self.norm_1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.dense_0, self.dense_1 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_0(x))
        return x + self.dense_1(F.gelu(self.dense_0(self.norm_1(x)), approximate="tanh"))


class Transformer(nn.Module):
    def __init__(self, width, depth, heads, length, causal, classes):
        super().__init__()
        self.depth, self.positions = depth, nn.Parameter(torch.empty(length, width))
        for i in range(depth):
            self.add_module(f"block_{i}", Block(width, heads, causal))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes, bias=not causal)
        if causal:
            self.tokens = nn.Embedding(classes, width)
        else:
            self.patches = Conv(3, width, 4, 4, padding=0, bias=True)
        self.causal = causal

    def forward(self, x):
        x = self.tokens(x) if self.causal else self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.positions
        for i in range(self.depth):
            x = self.get_submodule(f"block_{i}")(x)
        x = self.norm(x)
        return self.head(x if self.causal else x.mean(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Layer(nn.Module):
    """Of random_models.py."""

    def __init__(self, spec, channels):
        super().__init__()
        self.spec, bias = spec, not spec["norm"]
        self.width = spec.get("units") or spec["filters"]
        if "units" in spec:
            self.dense = nn.Linear(channels, self.width, bias=bias)
        else:
            k, d = spec["kernel"], spec["dilation"]
            self.conv = nn.Conv2d(channels, self.width, k, spec["stride"], (k - 1) * d // 2, d, spec["groups"], bias=bias)
        if spec["norm"] == "layer":
            self.norm = nn.LayerNorm(self.width, eps=1e-5)
        elif spec["norm"] == "batch":
            self.norm = (nn.BatchNorm1d if "units" in spec else nn.BatchNorm2d)(self.width)

    def forward(self, x):
        if "units" in self.spec:
            x = self.dense(x.mean((2, 3)) if x.dim() == 4 else x)
        else:
            x = self.conv(x)
        if self.spec["norm"] == "layer" and x.dim() == 4:
            x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        elif self.spec["norm"]:
            x = self.norm(x)
        if self.spec["activation"] == "gelu":
            return F.gelu(x, approximate="tanh")
        return getattr(torch if self.spec["activation"] == "tanh" else F, self.spec["activation"])(x)


class Drawn(nn.Module):
    def __init__(self, spec):
        super().__init__()
        channels, self.layers = spec["input"][-1], len(spec["layers"])
        for i, layer in enumerate(spec["layers"]):
            self.add_module(f"layer_{i}", Layer(layer, channels))
            channels = self.get_submodule(f"layer_{i}").width
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        for i in range(self.layers):
            x = self.get_submodule(f"layer_{i}")(x)
        return self.head(x.mean((2, 3)) if x.dim() == 4 else x)


MODELS = torch_like_models(Mlp, Cnn, ResNet, Transformer, Lstm, torch.tanh, F.relu)


def load(model, weights):
    """Kernels are [in, out] and [h, w, in, out] in the file; nn.LSTM has a second bias, which stays zero."""
    names = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight", "bias": "bias"}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for path, value in weights.items():
            value, *scopes, leaf = torch.from_numpy(value), *path.split("/")
            if scopes and scopes[0].startswith("lstm_"):
                name = {"kernel": "weight_ih", "recurrent_kernel": "weight_hh", "bias": "bias_ih"}[leaf]
                target = parameters.pop(f"lstm.{name}_l{scopes[0][-1]}")
            else:
                target = parameters.pop(".".join([*scopes, names[leaf]]) if scopes else leaf)
            flat = path == "head/kernel" or value.dim() == 2 and leaf.endswith("kernel")
            target.copy_(value.t() if flat else value.permute(3, 2, 0, 1) if value.dim() == 4 else value)
        if workload == "cnn":  # rows of the flattened image are [h, w, c] in the file
            kernel = torch.from_numpy(weights["dense/kernel"]).view(7, 7, 64, 128)
            model.dense.weight.copy_(kernel.permute(3, 2, 0, 1).reshape(128, 3136))
        for name, left in parameters.items():
            if ".bias_hh" not in name:
                raise SystemExit(f"{name} has no weights in the file")
            left.zero_()
            left.requires_grad_(False)


def versions():
    """PyTorch's, those of the libraries inside it and of the compiler that torch.compile calls."""
    said = torch.__config__.show()
    found = {"oneDNN": re.search(r"MKL-DNN v([\d.]+)", said), "MKL": re.search(r"Math Kernel Library Version ([\d.]+)", said)}
    inside = {name: match[1] for name, match in found.items() if match}
    if compiled:
        cxx = os.environ.get("CXX", "g++")
        version = subprocess.run([cxx, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        inside["compiler"] = f"{cxx} {version}"
    return package_versions("torch") | inside


def adam():
    weights, _, batches = inputs(folder, workload)
    w = nn.Parameter(torch.from_numpy(weights["w"]))
    w.grad = torch.from_numpy(batches[0][0])
    optimizer = torch.optim.Adam([w], 1e-3, **({"fused": True} if tuned else {}))
    update = torch.compile(optimizer.step) if compiled else optimizer.step

    def step():
        update()
        return w[0].item()

    serve(step, versions)


def update_weights():
    """The rule as a function of lists, compiled whole, or one of torch.optim."""
    weights, gradients = optimizer_inputs(folder, workload)
    names = sorted(weights)
    w = [nn.Parameter(torch.from_numpy(weights[name])) for name in names]
    g = [torch.from_numpy(gradients[name]) for name in names]
    update = torch_optimizers.make(workload, w, g, compiled)

    def step():
        update()
        return w[0][0].item()

    serve(step, versions)


def main():
    weights, _, batches = inputs(folder, workload)
    spec = drawn_spec(folder, workload)
    if workload in torch_layers.MODELS:
        model = torch_layers.MODELS[workload](weights)
    else:
        model = Drawn(spec) if spec else MODELS[workload]()
        load(model, weights)
    images = batches[0][0].ndim == 4
    if tuned and images:
        model = model.to(memory_format=torch.channels_last)

    def tensor(x):
        if not images:
            return torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
        x = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
        return x.contiguous(memory_format=torch.channels_last) if tuned else x

    batches = [(tensor(x), torch.from_numpy(y.astype(np.int64))) for x, y in batches]
    trained = [p for p in model.parameters() if p.requires_grad]
    fused = {"fused": True} if tuned else {}
    if uses_sgd(workload, spec):
        optimizer = torch.optim.SGD(trained, 0.05, momentum=0.9, **fused)
    else:
        optimizer = torch.optim.AdamW(trained, 1e-3, weight_decay=1e-2, **fused)

    def forward(x, y):
        logits = model(x)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))

    loss_of = torch.compile(forward) if compiled else forward
    update = torch.compile(optimizer.step) if compiled and not tuned else optimizer.step
    ring = itertools.cycle(batches)

    def step():
        x, y = next(ring)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = loss_of(x, y)
        loss.backward()
        update()
        return loss.item()

    serve(step, versions)


adam() if workload == "adam10m" else update_weights() if workload.endswith("_weights") else main()
