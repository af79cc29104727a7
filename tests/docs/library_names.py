"""usage: library_names.py ROOT. Every public name of another library (library_names/*.txt, as dir() of its modules gives
them, without modules) stands in a row of a page, or is a public name of ours: nothing is left out in silence. What
docs/left_out_libraries.md sets as code is a word of the public headers, and its rows name what those libraries have. So
do the columns of layers.md, optimizers.md and losses.md; of PyTorch they hold what is alike, not all there is.
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
docs = root / "docs"


def words(text):
    return set(re.findall(r"\w+", text))


def rows(page):
    return [line for line in (docs / page).read_text().splitlines() if " | " in line]


names_of = {file.stem: words(re.sub(r"(?m)^#.*$", "", file.read_text()))
            for file in (root / "tests/docs/library_names").glob("*.txt")}
names = set().union(*(those for library, those in names_of.items() if library != "torch"))
left_out = [row.split(" | ", 1) for row in rows("left_out_libraries.md")]
known = words((root / "tests/golden/public_names.txt").read_text())
known |= words(" ".join(line.split(" | ")[0] for line in rows("left_out.md") + rows("left_out_libraries.md")))
known |= words(" ".join(line for page in ("layers.md", "optimizers.md", "losses.md") for line in rows(page)))
public = words("".join(re.sub(r"//.*", "", file.read_text())
                       for ending in ("h", "def") for file in (root / "include/lockstep").rglob(f"*.{ending}")))

faults = [f"{name}: neither a row of docs nor Lockstep has it; write it in docs/left_out_libraries.md"
          for name in sorted(names - known)]
for given, reason in left_out[1:]:  # the first says what a line is
    faults += [f"{name}: docs/left_out_libraries.md has it, none of the libraries does"
               for name in sorted(words(given) - names)]
    code = " ".join(re.findall(r"`([^`]*)`", reason))
    faults += [f"{name}: docs/left_out_libraries.md says that for {given[:40]}, no public header does"
               for name in sorted(words(code) - public) if not name.isdigit()]
columns = {"Keras": "keras", "Flax": "flax", "Optax": "optax", "PyTorch": "torch"}
named = 0
for page in ("layers.md", "optimizers.md", "losses.md"):
    titles = []
    for line in (docs / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        titles = titles if titles and cells else cells
        if cells and len(cells) != len(titles):
            faults.append(f"docs/{page}: a row of {len(cells)} columns below {len(titles)}: {line[:60]}")
        for library, cell in zip(titles, cells):
            if library not in columns or library == cell or set(cell) <= set("-"):
                continue
            for name in re.sub(r"\([^)]*\)", "", cell).split(", "):
                last, named = name.split(".")[-1], named + 1
                if not {last, last + "Loss"} & names_of[columns[library]]:
                    faults.append(f"{name}: docs/{page} says that {library} has it for {cells[0]}; it does not")
if not named or not names or not left_out:
    faults.append("there are no names, or no rows")
if faults:
    sys.exit("\n".join(faults))
print(f"{len(names)} names, {len(left_out)} rows, {named} names in columns")
