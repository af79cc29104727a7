"""A browser without a network draws the curves of report.html.

    python3 tests/cli/report_is_drawn.py LOCKSTEP CHROMIUM FOLDER
"""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib

program, chromium, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def pixels(file):
    """The rows of a PNG of 8 bits a channel as bytes, and how many channels it has."""
    content, at, data = file.read_bytes(), 8, b""
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, chunk = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", chunk[:10])
            assert depth == 8 and colours in (2, 6), (depth, colours)
        data += chunk if kind == b"IDAT" else b""
        at += length + 12
    channels = 3 if colours == 2 else 4
    raw, line, rows = zlib.decompress(data), width * channels, []
    before = bytearray(line)
    for y in range(height):
        kind, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1 : (y + 1) * (line + 1)])
        for x in range(line):
            a = row[x - channels] if x >= channels else 0
            b, c = before[x], before[x - channels] if x >= channels else 0
            if kind == 1:
                row[x] = (row[x] + a) & 255
            elif kind == 2:
                row[x] = (row[x] + b) & 255
            elif kind == 3:
                row[x] = (row[x] + (a + b) // 2) & 255
            elif kind == 4:
                p = a + b - c
                near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                row[x] = (row[x] + near) & 255
        rows.append(row)
        before = row
    return rows, channels


shutil.rmtree(folder, ignore_errors=True)
train = [program, "train", "--model", "mlp", "--data", "synthetic", "--set", "data.rows=256", "--batch", "32"]
train += ["--log-every", "1", "--devices", "1", "--steps", "12", "--seeds", "0-1", "--run", str(folder / "runs")]
subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
page = folder / "runs" / "report.html"
text = page.read_text()
outside = [url for url in re.findall(r"(?:https?:)?//[^\s\"'<>]+", text) if "www.w3.org" not in url]
assert not outside, f"the page asks the network for {outside}"

browser = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
browser += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000", "--hide-scrollbars"]
dom = subprocess.run(browser + ["--dump-dom", page.as_uri()], check=True, capture_output=True, text=True).stdout
curves = re.findall(r"<(?:polyline|path)\b[^>]*\bstroke=\"(#[0-9a-fA-F]{6})\"", dom)
colours = set(curves)
assert len(curves) >= 4 and len(colours) >= 2, f"two runs of two metrics have the curves {curves}"

picture = folder / "page.png"
subprocess.run(
    browser + [f"--screenshot={picture}", "--window-size=800,1600", page.as_uri()], check=True, capture_output=True
)
rows, channels = pixels(picture)
for colour in colours:
    wanted = bytes.fromhex(colour[1:])
    drawn = sum(
        all(abs(row[x + k] - wanted[k]) < 24 for k in range(3)) for row in rows for x in range(0, len(row), channels)
    )
    assert drawn > 100, f"{drawn} pixels have the colour {colour} of a curve"
shutil.rmtree(folder)
