"""Writes values.txt: what small forms of the models give in PyTorch, in float64, a line each of name and numbers, for
model_values_test.cpp. Weights and inputs are formulas of path and place, which both sides know. Run by hand:
python tests/golden/models/model_values.py (needs torch and numpy)."""

import os

import numpy as np
import torch
import torch.nn.functional as F

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.txt")


def wave(shape, phase):
    count = int(np.prod(shape))
    return torch.from_numpy(np.sin(0.7 * np.arange(count) + phase)).reshape(shape)


def weight(path, *shape):
    """Of a variable by its path."""
    values = 0.3 * wave(shape, sum(path.encode()) % 97)
    return 1 + values if path.endswith(("gamma", "moving_variance")) else values


class Scope:
    def __init__(self, path=""):
        self.path = path

    def __getitem__(self, name):
        return Scope(f"{self.path}/{name}" if self.path else name)

    def __call__(self, leaf, *shape):
        return weight(self[leaf].path, *shape)


def dense(s, x, units, bias=True):
    y = x @ s("kernel", x.shape[-1], units)
    return y + s("bias", units) if bias else y


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def conv(s, x, filters, kernel, stride=1, padding=(0, 0), bias=True):
    """`padding`: in front of and behind both spatial dimensions."""
    k = s("kernel", kernel, kernel, x.shape[-1], filters).permute(3, 2, 0, 1)
    y = F.conv2d(F.pad(channels_first(x), padding * 2), k, s("bias", filters) if bias else None, stride)
    return channels_last(y)


def conv_transpose(s, x, filters, kernel, stride):
    """As many results as places times the stride; what is too much is cut off at the end first."""
    k = s("kernel", kernel, kernel, filters, x.shape[-1]).permute(3, 2, 0, 1)
    y = channels_last(F.conv_transpose2d(channels_first(x), k, s("bias", filters), stride))
    h, w, low = x.shape[1] * stride, x.shape[2] * stride, max(kernel - stride, 0) // 2
    return y[:, low : low + h, low : low + w]


def batch_norm(s, x):
    c = x.shape[-1]
    mean, variance = s("moving_mean", c), s("moving_variance", c)
    return (x - mean) / torch.sqrt(variance + 1e-5) * s("gamma", c) + s("beta", c)


def layer_norm(s, x, epsilon):
    c = x.shape[-1]
    return F.layer_norm(x, (c,), s("gamma", c), s("beta", c), epsilon)


def pool(f, x, *options):
    return channels_last(f(channels_first(x), *options))


def lenet(s, x):
    h = pool(F.avg_pool2d, torch.tanh(conv(s["conv_0"], x, 6, 5, 1, (2, 2))), 2)
    h = pool(F.avg_pool2d, torch.tanh(conv(s["conv_1"], h, 16, 5)), 2).flatten(1)
    h = torch.tanh(dense(s["dense_1"], torch.tanh(dense(s["dense_0"], h, 120)), 84))
    return dense(s["head"], h, 3)


def resnet(s, x):
    """Bottlenecks of 3 and 4 filters, two and one, on the first convolution of large images."""

    def conv_norm(s, x, filters, kernel, stride):
        half = (kernel // 2, kernel // 2)
        return batch_norm(s["norm"], conv(s["conv"], x, filters, kernel, stride, half, bias=False))

    h = torch.relu(conv_norm(s["stem"], x, 3, 7, 2))
    h = pool(F.max_pool2d, h, 3, 2, 1)
    for stage, (filters, blocks) in enumerate([(3, 2), (4, 1)]):
        for block in range(blocks):
            b, stride = s[f"stage_{stage}"][f"block_{block}"], 2 if stage > 0 and block == 0 else 1
            y = torch.relu(conv_norm(b["first"], h, filters, 1, 1))
            y = conv_norm(b["third"], torch.relu(conv_norm(b["second"], y, filters, 3, stride)), 4 * filters, 1, 1)
            projected = stride != 1 or h.shape[-1] != 4 * filters
            h = torch.relu(y + (conv_norm(b["shortcut"], h, 4 * filters, 1, stride) if projected else h))
    return dense(s["head"], h.mean((1, 2)), 3)


def mixer(s, x):
    def layers(s, x, units):
        return dense(s["dense_1"], F.gelu(dense(s["dense_0"], x, units)), x.shape[-1])

    h = conv(s["patches"], x, 6, 4, 4).flatten(1, 2)
    for i in range(2):
        b = s[f"block_{i}"]
        h = h + layers(b["tokens"], layer_norm(b["norm_0"], h, 1e-6).transpose(1, 2), 5).transpose(1, 2)
        h = h + layers(b["channels"], layer_norm(b["norm_1"], h, 1e-6), 7)
    return dense(s["head"], layer_norm(s["norm"], h, 1e-6).mean(1), 3)


def encoder(s, tokens):
    rows, length, width, heads = *tokens.shape, 8, 2
    types = (torch.arange(rows * length) // 2 % 2).reshape(rows, length)
    lengths = torch.tensor([7, 4])
    h = s["tokens"]("embeddings", 11, width)[tokens] + s("positions", 9, width)[:length]
    h = layer_norm(s["norm"], h + s["types"]("embeddings", 2, width)[types], 1e-12)
    seen = torch.arange(length)[None, None, None] < lengths[:, None, None, None]
    for i in range(2):
        b = s[f"block_{i}"]
        q, k, v = (part.reshape(rows, length, heads, -1).transpose(1, 2)
                   for part in dense(b["attention"]["qkv"], h, 3 * width).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(rows, length, width)
        h = layer_norm(b["norm_0"], h + dense(b["attention"]["out"], y, width), 1e-12)
        h = layer_norm(b["norm_1"], h + dense(b["dense_1"], F.gelu(dense(b["dense_0"], h, 4 * width)), width), 1e-12)
    return dense(s["head"], torch.tanh(dense(s["pooler"], h[:, 0], width)), 3)


def unet(s, x):
    def two(s, h, filters):
        for name in ("first", "second"):
            y = conv(s[name]["conv"], h, filters, 3, 1, (1, 1), bias=False)
            h = torch.relu(batch_norm(s[name]["norm"], y))
        return h

    filters, kept, h = (4, 6, 5), [], x
    for level, count in enumerate(filters):
        h = two(s[f"down_{level}"], pool(F.max_pool2d, h, 2) if level else h, count)
        kept.append(h)
    for level in (1, 0):
        u = s[f"up_{level}"]
        h = torch.cat([kept[level], conv_transpose(u["upsample"], h, filters[level], 2, 2)], -1)
        h = two(u, h, filters[level])
    return conv(s["head"], h, 2, 1)


def autoencoder(s, x):
    h = x.flatten(1)
    for i, units in enumerate((6, 5)):
        h = torch.sigmoid(dense(s[f"encoder_{i}"], h, units))
    h = dense(s["code"], h, 3)
    for i, units in ((1, 5), (0, 6)):
        h = torch.sigmoid(dense(s[f"decoder_{i}"], h, units))
    return dense(s["head"], h, x[0].numel())


def vae(s, x):
    h = x
    for i, filters in enumerate((3, 4)):
        h = torch.relu(conv(s[f"encoder_{i}"], h, filters, 3, 2, (0, 1)))
    smallest = h.shape
    code = dense(s["mean"], torch.relu(dense(s["dense"], h.flatten(1), 5)), 2)
    h = torch.relu(dense(s["decoder"], code, h[0].numel())).reshape(smallest)
    for i, filters in ((1, 4), (0, 3)):
        h = torch.relu(conv_transpose(s[f"decoder_{i}"], h, filters, 3, 2))
    return conv_transpose(s["head"], h, 1, 3, 1)


def main():
    tokens = (7 * torch.arange(14) % 11).reshape(2, 7)
    cases = {
        "lenet": (lenet, wave((2, 12, 12, 1), 1)),
        "resnet": (resnet, wave((2, 32, 32, 3), 1)),
        "mixer": (mixer, wave((2, 8, 8, 3), 1)),
        "encoder": (encoder, tokens),
        "unet": (unet, wave((2, 8, 8, 2), 1)),
        "autoencoder": (autoencoder, wave((2, 4, 4, 1), 1)),
        "vae": (vae, wave((2, 8, 8, 1), 1)),
    }
    with open(FILE, "w") as file:
        for name, (model, x) in cases.items():
            values = model(Scope(), x).flatten().tolist()
            file.write(" ".join([name, *map(repr, values)]) + "\n")


main()
