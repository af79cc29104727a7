"""usage: mlx_step.py FOLDER WORKLOAD. The training steps of benches/workloads.cpp in MLX on its CPU backend.

The step is what MLX' guide to compilation writes: one compiled function that takes and gives the state of the model and
the optimizer.
"""

import itertools
import os
import sys
import tempfile
from functools import partial

# MLX keeps the kernels that it compiles in a folder of temporary files: those of an earlier run would make the first call
# look short.
cache = tempfile.TemporaryDirectory(prefix="mlx-")
os.environ["TMPDIR"] = cache.name

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

from protocol import inputs, package_versions, serve, torch_like_models, uses_sgd

folder, workload = sys.argv[1:3]
versions = partial(package_versions, "mlx", "mlx-cpu")


class Mlp(nn.Module):
    def __init__(self, widths, activation):
        super().__init__()
        self.activation, self.names = activation, [f"dense_{i}" for i in range(len(widths) - 2)]
        for name, i, o in zip(self.names, widths, widths[1:]):
            setattr(self, name, nn.Linear(i, o))
        self.head = nn.Linear(widths[-2], widths[-1])

    def __call__(self, x):
        for name in self.names:
            x = self.activation(self[name](x))
        return self.head(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_0, self.conv_1 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.pool, self.dense, self.head = nn.MaxPool2d(2, 2), nn.Linear(3136, 128), nn.Linear(128, 10)

    def __call__(self, x):
        x = self.pool(nn.relu(self.conv_1(self.pool(nn.relu(self.conv_0(x))))))
        return self.head(nn.relu(self.dense(x.reshape(len(x), -1))))


class ConvNorm(nn.Module):
    def __init__(self, i, o, kernel=3, stride=1):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm(o)

    def __call__(self, x):
        return self.norm(self.conv(x))


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.first, self.second = ConvNorm(i, o, 3, stride), ConvNorm(o, o)
        if i != o or stride != 1:
            self.shortcut = ConvNorm(i, o, 1, stride)

    def __call__(self, x):
        y = self.second(nn.relu(self.first(x)))
        return nn.relu(y + (self.shortcut(x) if "shortcut" in self else x))


class ResNet(nn.Module):
    def __init__(self, filters, blocks):
        super().__init__()
        self.stem, channels = ConvNorm(3, filters[0]), filters[0]
        self.stages, self.blocks = len(filters), blocks
        for stage, width in enumerate(filters):
            layers = {}
            for block in range(blocks):
                layers[f"block_{block}"] = Residual(channels, width, 2 if stage > 0 and block == 0 else 1)
                channels = width
            setattr(self, f"stage_{stage}", layers)
        self.head = nn.Linear(channels, 10)

    def __call__(self, x):
        x = nn.relu(self.stem(x))
        for stage in range(self.stages):
            for block in range(self.blocks):
                x = self[f"stage_{stage}"][f"block_{block}"](x)
        return self.head(x.mean((1, 2)))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.mask = heads, "causal" if causal else None

    def __call__(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).reshape(rows, length, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask=self.mask)
        return self.out(y.transpose(0, 2, 1, 3).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm_0, self.norm_1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.dense_0, self.dense_1 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x):
        x = x + self.attention(self.norm_0(x))
        return x + self.dense_1(nn.gelu_approx(self.dense_0(self.norm_1(x))))


class Transformer(nn.Module):
    def __init__(self, width, depth, heads, length, causal, classes):
        super().__init__()
        self.depth, self.positions = depth, mx.zeros((length, width))
        for i in range(depth):
            setattr(self, f"block_{i}", Block(width, heads, causal))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes, bias=not causal)
        if causal:
            self.tokens = nn.Embedding(classes, width)
        else:
            self.patches = nn.Conv2d(3, width, 4, 4)

    def __call__(self, x):
        x = self.tokens(x) if "tokens" in self else self.patches(x).flatten(1, 2)
        x = x + self.positions
        for i in range(self.depth):
            x = self[f"block_{i}"](x)
        x = self.norm(x)
        return self.head(x if "tokens" in self else x.mean(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm_0, self.lstm_1, self.head = nn.LSTM(32, 256), nn.LSTM(256, 256), nn.Linear(256, 10)

    def __call__(self, x):
        x, _ = self.lstm_1(self.lstm_0(x)[0])
        return self.head(x[:, -1])


MODELS = torch_like_models(Mlp, Cnn, ResNet, Transformer, Lstm, mx.tanh, nn.relu)


def load(model, values):
    """Kernels are [in, out] and [h, w, in, out] in the file, [out, in] and [out, h, w, in] here."""
    leaves = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight", "bias": "bias",
              "moving_mean": "running_mean", "moving_variance": "running_var"}
    lstm = {"kernel": "Wx", "recurrent_kernel": "Wh", "bias": "bias"}
    named = []
    for path, value in values.items():
        *scopes, leaf = path.split("/")
        if leaf.endswith("kernel"):
            value = value.transpose(3, 0, 1, 2) if value.ndim == 4 else value.T
        names = lstm if scopes and scopes[0].startswith("lstm_") else leaves
        named.append((".".join([*scopes, names[leaf] if scopes else leaf]), mx.array(value)))
    model.load_weights(named)


def adam():
    weights, _, batches = inputs(folder, workload)
    optimizer = optim.Adam(1e-3, bias_correction=True)
    run, gradient = {"w": mx.array(weights["w"])}, {"w": mx.array(batches[0][0])}
    optimizer.init(run)

    @partial(mx.compile, inputs=optimizer.state, outputs=optimizer.state)
    def update(run):
        return optimizer.apply_gradients(gradient, run)

    def step():
        nonlocal run
        run = update(run)
        mx.eval(run, optimizer.state)
        return run["w"][0].item()

    serve(step, versions)


def main():
    weights, state, batches = inputs(folder, workload)
    model = MODELS[workload]()
    load(model, weights | state)
    batches = [(mx.array(x), mx.array(y)) for x, y in batches]
    if uses_sgd(workload):
        optimizer = optim.SGD(0.05, momentum=0.9)
    else:
        optimizer = optim.AdamW(1e-3, weight_decay=1e-2, bias_correction=True)
    optimizer.init(model.trainable_parameters())
    run = [model.state, optimizer.state]
    differentiated = nn.value_and_grad(model, lambda x, y: nn.losses.cross_entropy(model(x), y, reduction="mean"))

    @partial(mx.compile, inputs=run, outputs=run)
    def train(x, y):
        loss, gradients = differentiated(x, y)
        optimizer.update(model, gradients)
        return loss

    ring = itertools.cycle(batches)

    def step():
        loss = train(*next(ring))
        mx.eval(loss, run)
        return loss.item()

    serve(step, versions)


adam() if workload == "adam10m" else main()
