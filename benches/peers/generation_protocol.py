"""What every system that generates tokens says and hears (benches/generation.py): arguments SIZE BATCH TOKENS PROMPT, "ready"
when it has generated once, and for each line read, how many seconds it took to do so again."""

import sys
import time

SIZES = {  # vocabulary, positions, width, depth, heads
    "10m": (512, 1024, 384, 6, 6),
    "100m": (16384, 1024, 768, 12, 12),
}


def arguments():
    size, batch, tokens = sys.argv[1:4]
    return SIZES[size], int(batch), int(tokens)


def prompts(batch):
    length = int(sys.argv[4])
    return [[(row * length + i) % 511 for i in range(length)] for row in range(batch)]


def serve(once):
    once()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        once()
        print(f"{time.perf_counter() - start:.6f}", flush=True)
