"""Writes tests/data/samples: files made by NumPy and Netpbm, and byte-pair encodings by a plain reading of GPT-2's
rules, for the tests beside it. Run by hand: python tests/data/samples.py (needs numpy, netpbm)."""

import json
import os
import re
import subprocess
import unicodedata

import numpy as np

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples")


def path(name):
    return os.path.join(folder, name)


def arrays():
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3) / 2
    np.save(path("float32.npy"), numbers)
    np.save(path("fortran.npy"), np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)))
    np.save(path("big_endian.npy"), (np.arange(3) * 70000).astype(">i4"))
    np.save(path("scalar.npy"), np.float64(2.5))
    np.save(path("complex.npy"), np.array([1 + 2j, 3 - 4j], dtype=">c8"))
    with open(path("version2.npy"), "wb") as file:
        np.lib.format.write_array(file, np.array([True, False, True]), version=(2, 0))
    np.savez(path("stored.npz"), x=numbers, y=np.array([1, 2], dtype=np.int64))
    np.savez_compressed(path("deflated.npz"), x=np.zeros((64, 64), dtype=np.uint8), y=numbers)


def images():
    pixels = bytes((7 * i * i + 11 * i) % 256 for i in range(5 * 4 * 3))
    colours = b"P6 5 4 255\n" + pixels
    run([["pnmtopng"]], colours, "rgb.png")
    run([["pnmtopng", "-interlace"]], colours, "interlaced.png")
    run([["ppmtopgm"], ["pnmtopng"]], colours, "grey.png")
    run([["pamtopng"]], b"P7\nWIDTH 5\nHEIGHT 4\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n"
        + b"".join(pixels[i:i + 3] + bytes([i]) for i in range(0, len(pixels), 3)), "alpha.png")
    with open(path("rgb.bin"), "wb") as file:
        file.write(pixels)
    smooth = b"P6 16 16 255\n" + bytes(v for y in range(16) for x in range(16) for v in (16 * x, 16 * y, 128))
    run([["pnmtojpeg", "-quality=90"]], smooth, "smooth.jpg")
    run([["pnmtojpeg", "-quality=90", "-progressive"]], smooth, "progressive.jpg")


def run(commands, data, name):
    for command in commands:
        data = subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout
    with open(path(name), "wb") as file:
        file.write(data)


def spelling():
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def words(text):
    def kind(c):
        if c in " ":
            return " "
        if c.isspace():
            return "S"
        return {"L": "L", "N": "N"}.get(unicodedata.category(c)[0], "O")

    kinds = "".join(kind(c) for c in text)
    pattern = re.compile(r" ?L+| ?N+| ?O+|[ S]+(?![^ S])|[ S]+")
    at = 0
    while at < len(text):
        short = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d").match(text, at)
        end = short.end() if short else pattern.match(kinds, at).end()
        yield text[at:end]
        at = end


def vocabulary():
    spelled = spelling()
    text = "the theme of the other thing isn't that the thinner thing there is 2024 over 202 then " * 3
    pieces = [[spelled[b] for b in word.encode()] for word in words(text)]
    merges = []
    for _ in range(40):
        counts = {}
        for word in pieces:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        pieces = [merged(word, best) for word in pieces]
    tokens = [spelled[b] for b in range(256)] + list(dict.fromkeys(a + b for a, b in merges)) + ["<|endoftext|>"]
    with open(path("vocab.json"), "w", encoding="utf-8") as file:
        json.dump({token: i for i, token in enumerate(tokens)}, file, ensure_ascii=True)
    with open(path("merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    texts = ["the other thing", "Isn't it?  They'll  see 2024's\n\n themes\t!", " \u00e9t\u00e9 \u4e2d\u6587 \u0663\u0664 x\u00b2 \U0001F600!",
             "thththththe", "   ", "a\u00a0b \u3000c", ""]
    with open(path("encoded.json"), "w", encoding="utf-8") as file:
        numbers = {token: i for i, token in enumerate(tokens)}
        json.dump([[t, [numbers[p] for w in words(t) for p in encode([spelled[b] for b in w.encode()], merges)]]
                   for t in texts], file)


def merged(word, pair):
    result = []
    while word:
        joined = tuple(word[:2]) == pair
        result.append(word[0] + word[1] if joined else word[0])
        word = word[2 if joined else 1:]
    return result


def encode(word, merges):
    ranks = {pair: i for i, pair in enumerate(merges)}
    while True:
        pairs = [pair for pair in zip(word, word[1:]) if pair in ranks]
        if not pairs:
            return word
        word = merged(word, min(pairs, key=ranks.get))


os.makedirs(folder, exist_ok=True)
arrays()
images()
vocabulary()
