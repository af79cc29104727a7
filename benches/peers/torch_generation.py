"""usage: torch_generation.py SIZE BATCH TOKENS PROMPT VARIANT. The work of benches/generation.cpp in PyTorch with a static cache.
VARIANT: eager, compiled (torch.compile) or compiled-tuned (mode max-autotune)."""

import os
import sys
import tempfile

cache_folder = tempfile.TemporaryDirectory(prefix="torchinductor-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache_folder.name

import torch
import torch.nn.functional as F
from torch import nn

from generation_protocol import arguments, prompts, serve

(vocabulary, positions, width, depth, heads), batch, tokens = arguments()
variant = sys.argv[5]
torch.set_num_threads(2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_0, self.norm_1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense_0, self.dense_1 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        shape = (batch, heads, positions, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x, places, mask):
        rows, length, _ = x.shape
        q, k, v = self.qkv(self.norm_0(x)).view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.dense_1(F.gelu(self.dense_0(self.norm_1(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("all", torch.arange(positions))

    def forward(self, tokens, places):
        x = self.tokens(tokens) + self.positions(places)
        mask = self.all[None] <= places[:, None]
        for block in self.blocks:
            x = block(x, places, mask)
        return self.head(self.norm(x[:, -1])).argmax(-1, keepdim=True)


torch.manual_seed(0)
model = Gpt().eval()
given = torch.tensor(prompts(batch))
mode = "max-autotune" if variant.endswith("tuned") else "default"
decode = model if variant == "eager" else torch.compile(model, mode=mode, dynamic=False)


@torch.inference_mode()
def once():
    token, drawn = model(given, torch.arange(given.shape[1])), []
    for place in range(given.shape[1], given.shape[1] + tokens - 1):
        drawn.append(token)
        token = decode(token, torch.tensor([place]))
    return drawn[-1].tolist(), token.tolist()


serve(once)
