"""Writes weights and values of three models of PyTorch's, for tests/exchange/models_test.cpp: a ResNet-18 (resnet18.pt), a
ViT (vit.npz) and a GPT-2 (gpt2.safetensors), all very narrow, with inputs and logits as <model>_values.npz; tensors.pt has
one tensor of each kind. Run by hand: python tests/golden/exchange/torch_models.py (needs torch and numpy)."""

import collections
import json
import os
import struct

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FOLDER = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(FOLDER, name)


class BasicBlock(nn.Module):
    """torchvision's."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's names, with the 3x3 stem of small images."""

    def __init__(self, widths, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        for stage, width in enumerate(widths):
            blocks = [BasicBlock(inputs, width, 1 if stage == 0 else 2), BasicBlock(width, width, 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = width
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class EncoderLayer(nn.Module):
    """A pre-norm block; nn.MultiheadAttention has its projections as one in_proj_weight, [3 E, E]."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.causal = causal

    def forward(self, x):
        y = self.ln_1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.fc2(functional.gelu(self.fc1(self.ln_2(x)), approximate="tanh"))


class ViT(nn.Module):
    def __init__(self, image, patch, width, depth, heads, classes):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, patch, patch)
        self.pos_embed = nn.Parameter(0.1 * torch.randn(1, (image // patch) ** 2, width))
        self.blocks = nn.ModuleList(EncoderLayer(width, heads, False) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(0.2 * torch.randn(inputs, outputs))
        self.bias = nn.Parameter(0.1 * torch.randn(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.ln_2 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(width, 3 * width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)})

    def forward(self, x):
        n, t, width = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).split(width, 2)
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(n, t, width))
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """The names of OpenAI's weights, which many files have; the head is tied to the tokens."""

    def __init__(self, vocabulary, length, width, depth, heads):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.h = nn.ModuleList(Gpt2Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def disturb(model):
    """Values that an initialisation leaves alike, such as ones and zeros, become different ones."""
    with torch.no_grad():
        for name, value in list(model.named_parameters()) + list(model.named_buffers()):
            if value.dtype == torch.float32 and value.ndim == 1:
                value += 0.2 * torch.rand(value.shape)
    return model.eval()


def numpy_dict(model):
    return {name: value.numpy() for name, value in model.state_dict().items()}


def write_safetensors(file, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def values(name, model, x):
    with torch.no_grad():
        logits = model(x)
    given = x.permute(0, 2, 3, 1) if x.ndim == 4 else x.to(torch.int32)
    np.savez_compressed(path(f"{name}_values.npz"), x=given.numpy(), logits=logits.numpy())


def main():
    torch.manual_seed(7)
    resnet = disturb(ResNet18([3, 4, 5, 6], 5))
    torch.save(resnet.state_dict(), path("resnet18.pt"))
    values("resnet18", resnet, torch.randn(2, 3, 9, 9))
    vit = disturb(ViT(8, 4, 12, 2, 3, 5))
    np.savez_compressed(path("vit.npz"), **numpy_dict(vit))
    values("vit", vit, torch.randn(2, 3, 8, 8))
    gpt2 = disturb(Gpt2(17, 6, 8, 2, 2))
    write_safetensors(path("gpt2.safetensors"), numpy_dict(gpt2))
    values("gpt2", gpt2, torch.randint(0, 17, (2, 6)))

    base = torch.arange(24.0).reshape(4, 6)
    tensors = collections.OrderedDict(
        base=base, transposed=base.t(), part=base[1:3, 2:5], column=base[:, 1], bfloat=torch.tensor([1.5, -2]).bfloat16(),
        half=torch.tensor([0.25]).half(), double=torch.tensor(1 / 3, dtype=torch.float64), whole=torch.tensor(-7),
        small=torch.tensor([1, -2], dtype=torch.int8), truth=torch.tensor([True, False]), empty=torch.zeros(0, 3),
        complex=torch.tensor([1 + 2j]), parameter=nn.Parameter(torch.ones(2)))
    torch.save({"epoch": 3, "rate": 0.1, "note": "text", "many": [1, (2, None)], "model": tensors, 5: base[0]},
               path("tensors.pt"))


if __name__ == "__main__":
    main()
