"""usage: library_names.py ROOT. Every public name of another library (library_names.txt, as dir() of the module gives them,
without modules) stands in one of the pages, or is a public name of ours: nothing is left out in silence.
"""

import pathlib
import re
import sys

PAGES = ("left_out", "layers", "optimizers", "losses")
root = pathlib.Path(sys.argv[1])
pages = "".join((root / "docs" / f"{page}.md").read_text() for page in PAGES)
known = set(re.findall(r"\w+", pages + (root / "tests/golden/public_names.txt").read_text()))
lines = (root / "tests/docs/library_names.txt").read_text().splitlines()
names = [line for line in lines if not line.startswith("#")]
missing = sorted(name for name in names if name not in known)
if missing:
    sys.exit("neither a page of docs nor Lockstep has these names; write a line in docs/left_out.md: " + ", ".join(missing))
print(f"{len(names)} names")
