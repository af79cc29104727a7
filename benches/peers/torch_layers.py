"""The models of benches/layer_workloads.cpp in PyTorch: images are [N, C, H, W]. A model takes its weights, by path, as the
file has them.
"""

import torch
import torch.nn.functional as F
from torch import nn


def convolution(kernel):
    return kernel.permute(3, 2, 0, 1).contiguous()


class Layers(nn.Module):
    """Parameters by path, with "/" for "." as nn.Module wants no dots in names."""

    def __init__(self, weights, layouts=()):
        super().__init__()
        self.w = nn.ParameterDict()
        for path, value in weights.items():
            value = torch.from_numpy(value)
            for ending, layout in layouts:
                value = layout(value) if path.endswith(ending) else value
            self.w[path.replace("/", "_")] = nn.Parameter(value.clone())

    def head(self, x):
        return x @ self.w["head_kernel"] + self.w["head_bias"]


class Norms(Layers):
    def __init__(self, weights, groups):
        super().__init__(weights, [("conv_0/kernel", convolution), ("conv_1/kernel", convolution),
                                   ("conv_2/kernel", convolution)])
        self.groups = groups

    def forward(self, x):
        for i in range(3):
            y = F.conv2d(x, self.w[f"conv_{i}_kernel"], padding=1)
            x = F.relu(F.group_norm(y, self.groups, self.w[f"norm_{i}_gamma"], self.w[f"norm_{i}_beta"], 1e-3))
        return self.head(x.mean((2, 3)))


class SeparableConv(Layers):
    def __init__(self, weights):
        super().__init__(weights, [("depthwise_kernel", lambda k: k.permute(2, 3, 0, 1).contiguous()),
                                   ("pointwise_kernel", lambda k: k.reshape(k.shape[-2:]).t()[:, :, None, None].contiguous())])

    def forward(self, x):
        for i in range(3):
            y = F.conv2d(x, self.w[f"conv_{i}_depthwise_kernel"], padding=1, groups=x.shape[1])
            x = F.relu(F.conv2d(y, self.w[f"conv_{i}_pointwise_kernel"], self.w[f"conv_{i}_bias"]))
        return self.head(x.mean((2, 3)))


class ConvTranspose(Layers):
    def __init__(self, weights):
        # [h, w, out, in] in the file, [in, out, h, w] here: a gradient of a convolution in both.
        layout = lambda k: k.permute(3, 2, 0, 1).contiguous()
        super().__init__(weights, [("conv_0/kernel", layout), ("conv_1/kernel", layout)])

    def forward(self, x):
        for i in range(2):
            x = F.relu(F.conv_transpose2d(x, self.w[f"conv_{i}_kernel"], self.w[f"conv_{i}_bias"], 2, 1))
        return self.head(x.mean((2, 3)))


class DilatedConv(Layers):
    def __init__(self, weights):
        super().__init__(weights, [(f"conv_{i}/kernel", convolution) for i in range(8)])

    def forward(self, x):
        for i in range(8):
            x = F.relu(F.conv2d(x, self.w[f"conv_{i}_kernel"], self.w[f"conv_{i}_bias"], 1, i + 1, i + 1))
        return self.head(x.mean((2, 3)))


class Swiglu(Layers):
    def forward(self, x):
        for i in range(4):
            y = F.rms_norm(x, x.shape[-1:], self.w[f"norm_{i}_gamma"], 1e-6)
            gate, value = (y @ self.w[f"gate_{i}_kernel"]).chunk(2, -1)
            x = x + (F.silu(gate) * value) @ self.w[f"down_{i}_kernel"]
        return self.head(x.mean(1))


def rotary(x):
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    sine, cosine = torch.sin(angles), torch.cos(angles)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class GroupedAttention(Layers):
    def forward(self, x):
        rows, length, width = x.shape
        for i in range(4):
            y = F.rms_norm(x, x.shape[-1:], self.w[f"norm_{i}_gamma"], 1e-6)
            q, k, v = ((y @ self.w[f"attention_{i}_{name}_kernel"]).view(rows, length, -1, width // 8).transpose(1, 2)
                       for name in ("query", "key", "value"))
            y = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True, enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(x.shape) @ self.w[f"attention_{i}_out_kernel"]
        return self.head(x.mean(1))


class Gru(Layers):
    """nn.GRU, whose gates are r, z, n, and whose z counts the old state as ours does."""

    def __init__(self, weights):
        super().__init__({path: value for path, value in weights.items() if path.startswith("head")})
        self.gru = nn.GRU(32, 256, 2, batch_first=True)
        with torch.no_grad():
            for i in range(2):
                for ours, theirs in (("kernel", "weight_ih"), ("recurrent_kernel", "weight_hh"), ("bias", "bias_ih"),
                                     ("recurrent_bias", "bias_hh")):
                    z, r, n = torch.from_numpy(weights[f"gru_{i}/{ours}"]).chunk(3, -1)
                    value = torch.cat([r, z, n], -1)
                    self.gru.get_parameter(f"{theirs}_l{i}").copy_(value.t() if value.dim() == 2 else value)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


MODELS = {
    "group_norm": lambda weights: Norms(weights, 8),
    "instance_norm": lambda weights: Norms(weights, 64),
    "separable_conv": SeparableConv,
    "conv_transpose": ConvTranspose,
    "dilated_conv": DilatedConv,
    "swiglu": Swiglu,
    "grouped_attention": GroupedAttention,
    "gru": Gru,
}
