"""Draws models from a seed and times their training steps against the peers, interleaved.

    python benches/random_models.py build/release/bin --seed 7 [--models 20] [--rounds 5] [--seconds 0.3] [--out results]

Widths of 7 to 700, in convolutions too, kernels of 1 to 7, strides, groups, dilation, two norms or none, four
activations, 1 to 200 rows. So that a run ends, a model of more than 1e10 multiply-adds in its forward pass (some hundred
milliseconds a step) is drawn anew: two in five, most of them of convolutions. The peers are JAX and three ways to run
PyTorch; the others of compare.py do not read drawn models. A model that others disturb is measured up to twice more.
"""

import argparse
import json
import pathlib
import random
import statistics

import compare
import tables

SYSTEMS = "lockstep,jax,torch eager,torch eager-tuned,torch compiled-tuned"
AGAIN = 2  # times that a model is measured anew where something does not count


def draw_conv(rng, channels):
    groups = rng.choice([1, 1, 1, 2, 4, channels])
    groups = groups if channels % groups == 0 else 1
    filters = groups * max(1, rng.randint(7, 700) // groups)
    kernel = rng.randint(1, 7)
    return {"filters": filters, "kernel": kernel, "stride": rng.choice([1, 1, 2]), "groups": groups,
            "dilation": rng.choice([1, 1, 2]) if kernel > 1 else 1}


def draw_layer(rng, layer):
    layer["norm"] = rng.choice(["batch", "layer", ""])
    layer["activation"] = rng.choice(["relu", "gelu", "tanh", "silu"])
    return layer


def draw(rng):
    rows = rng.randint(1, 200)
    layers = []
    if rng.random() < 0.6:
        size, channels = rng.randint(7, 40), rng.randint(1, 16)
        shape = [size, size, channels]
        for _ in range(rng.randint(2, 5)):
            layers.append(draw_layer(rng, draw_conv(rng, channels)))
            channels = layers[-1]["filters"]
    else:
        shape = [rng.randint(7, 700)]
    for _ in range(rng.randint(0 if layers else 2, 3)):
        layers.append(draw_layer(rng, {"units": rng.randint(7, 700)}))
    return {"rows": rows, "input": shape, "adamw": rng.random() < 0.5, "layers": layers}


def work(model):
    """Multiply-adds of a forward pass."""
    shape, total = model["input"], 0
    for layer in model["layers"]:
        if "units" in layer:
            total += shape[-1] * layer["units"]
            shape = [layer["units"]]
        else:
            size = -(-shape[0] // layer["stride"])
            total += size * size * layer["kernel"] ** 2 * shape[-1] // layer["groups"] * layer["filters"]
            shape = [size, size, layer["filters"]]
    return total * model["rows"]


def is_possible(model, most_work):
    """Neither of too much work nor with a window beyond its padded image."""
    size = model["input"][0]
    for layer in model["layers"]:
        if "kernel" not in layer:
            break
        reach = (layer["kernel"] - 1) * layer["dilation"]
        if size + reach // 2 * 2 <= reach:
            return False
        size = (size + reach // 2 * 2 - reach - 1) // layer["stride"] + 1
    return work(model) <= most_work


def draw_models(seed, count, most_work):
    rng, models = random.Random(seed), []
    while len(models) < count:
        model = draw(rng)
        if is_possible(model, most_work):
            models.append(model)
    return models


def describe(model):
    def text(layer):
        if "units" in layer:
            return f"dense {layer['units']}"
        extra = "".join(f" {k}={layer[k]}" for k in ("stride", "groups", "dilation") if layer[k] > 1)
        return f"conv {layer['filters']}/{layer['kernel']}{extra}"

    layers = "; ".join(" ".join(filter(None, (text(l), l["norm"], l["activation"]))) for l in model["layers"])
    return f"{model['rows']} x {model['input']}: {layers}"


def measure(a, name, model, systems):
    """The model's rows, and Lockstep's time over the fastest peer's where both count."""
    folder = pathlib.Path(a.inputs) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(model))
    rows, absent, versions = compare.measure(a.binaries, a.inputs, name, a.rounds, a.seconds, systems, again=AGAIN)
    result = {"model": model, "rows": rows, "absent": absent, "versions": versions,
              "loss_spread": tables.losses_agree(rows, False)}
    medians, best = tables.counting(rows), tables.best_peers(rows)[False]
    if best and "lockstep" in medians:
        result |= {"best": best, "ratio": medians["lockstep"] / medians[best]}
    return result


def line(result):
    if "ratio" not in result:
        text = "  -   others were at work, nothing counts: "
    else:
        text = f"{result['ratio']:5.2f} of {result['best']:20} {result['rows']['lockstep']['median_ms']:8.2f} ms, "
        text += f"losses within {result['loss_spread']:.0e}  "
    left_out = "".join(f"; {name} is not there" for name in result["absent"])
    return text + describe(result["model"]) + left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--most-work", type=float, default=1e10, help="multiply-adds of a forward pass")
    parser.add_argument("--systems", default=SYSTEMS)
    parser.add_argument("--inputs", default="build/benches", help="weights and batches that all systems start from")
    parser.add_argument("--out")
    a = parser.parse_args()
    systems, ratios, document = a.systems.split(","), [], {"processor": compare.processor(), "models": {}}
    for number, model in enumerate(draw_models(a.seed, a.models, a.most_work)):
        result = measure(a, f"drawn-{a.seed}-{number}", model, systems)
        document["versions"] = result.pop("versions")
        document["models"][f"drawn-{a.seed}-{number}"] = result
        ratios += [result["ratio"]] if "ratio" in result else []
        print(line(result), flush=True)
    if ratios:
        print(f"seed {a.seed}: {len(ratios)} of {a.models} models, median {statistics.median(ratios):.2f}, "
              f"worst {max(ratios):.2f}")
    print(tables.heading(document["processor"], document["versions"]))
    if a.out:
        pathlib.Path(a.out + ".json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
