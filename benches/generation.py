"""usage: generation.py BINARIES [--sizes 10m,100m] [--batches 1,8] [--tokens 64] [--prompts 64] [--rounds 5] [--python PYTHON]

Tokens a second of a gpt with a cache, in Lockstep, JAX and PyTorch: each in a process of its own, in turn, one at a time,
so many tokens of prompt a row and so many new ones, float32, two threads each. Prints medians over the rounds and the ratio of
Lockstep's time to the fastest peer's. Seconds are of a whole call: prompt, all tokens, and reading them on the host; of two
calls one behind the other the second.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def systems(binaries, python):
    peer = lambda script, *variant: ([python, str(HERE / "peers" / script)], list(variant))
    return {
        "lockstep": ([str(pathlib.Path(binaries) / "bench_generation")], []),
        "jax": peer("jax_generation.py"),
        "jax loop": peer("jax_generation.py", "loop"),
        "torch": peer("torch_generation.py", "eager"),
        "torch compiled": peer("torch_generation.py", "compiled"),
    }


class Running:
    def __init__(self, command):
        environment = os.environ | {"OMP_NUM_THREADS": "2", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def is_ready(self):
        return self.process.stdout.readline().strip() == "ready"

    def seconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(commands, size, batch, tokens, prompt, rounds):
    running = {}
    for name, (command, variant) in commands.items():
        one = Running([*command, size, str(batch), str(tokens), str(prompt), *variant])
        if one.is_ready():
            running[name] = one
        else:
            print(f"{name} does not run", file=sys.stderr)
    samples = {name: [] for name in running}
    for _ in range(rounds):
        for name, one in running.items():
            one.seconds()  # where memory that was idle while others ran has been taken away, it comes back
            samples[name].append(one.seconds())
    for one in running.values():
        one.close()
    return {name: statistics.median(times) for name, times in samples.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--sizes", default="10m,100m")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--systems", default="")
    options = parser.parse_args()
    known = systems(options.binaries, options.python)
    chosen = options.systems.split(",") if options.systems else list(known)
    commands = {name: known[name] for name in chosen}
    print("| size | batch | " + " | ".join(f"{name}, tokens/s" for name in commands) + " | ratio |")
    print("|---" * (len(commands) + 3) + "|")
    for size in options.sizes.split(","):
        for batch in map(int, options.batches.split(",")):
            times = measure(commands, size, batch, options.tokens, options.prompts, options.rounds)
            rates = [f"{batch * options.tokens / times[name]:.0f}" if name in times else "" for name in commands]
            peers = [time for name, time in times.items() if name != "lockstep"]
            ratio = f"{times['lockstep'] / min(peers):.2f}" if "lockstep" in times and peers else ""
            print(f"| {size} | {batch} | " + " | ".join(rates) + f" | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
