"""The rooms of the house and who includes whom, from the #include lines: printed, and drawn to docs/house.svg.

    python3 docs/house.py            prints the edges, draws the picture
    python3 docs/house.py --check    fails where rooms include each other in a circle, or the picture is another one

A room is a folder of engine/ or backends/, or include/lockstep and its backend/. Of the edges only those are drawn that do
not follow from others.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "house.svg"
INCLUDE = re.compile(r'^#include [<"]([^">]+)[">]', re.MULTILINE)
WIDTH, HEIGHT, GAP_X, GAP_Y = 108, 26, 16, 34


def room_of(path):
    """The room that a file of the repository, or what an #include line names, stands in; None for third parties."""
    parts = path.split("/")
    if parts[0] == "lockstep":
        parts = ["include", *parts]
    if parts[:3] == ["include", "lockstep", "backend"] and len(parts) > 3:
        return "include/backend"
    if parts[:2] == ["include", "lockstep"]:
        return "include"
    if parts[0] == "engine" and len(parts) > 2:
        return parts[1]
    if parts[0] == "backends":
        return "backends/" + parts[1] if len(parts) > 2 else "backends"
    return None


def edges():
    """{room: rooms that its files include}, itself left out."""
    found = {}
    for top in ("include", "engine", "backends"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".h", ".cpp"):
                continue
            room = room_of(file.relative_to(ROOT).as_posix())
            targets = {room_of(name) for name in INCLUDE.findall(file.read_text())}
            found.setdefault(room, set()).update(targets - {room, None})
    return found


def circle(graph):
    """Rooms that include each other in a circle, or None."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return None
        path.append(room)
        for target in sorted(graph.get(room, ())):
            if found := visit(target):
                return found
        done.add(path.pop())
        return None

    return next((found for room in sorted(graph) if (found := visit(room))), None)


def reach(graph, room):
    """All rooms that a room includes, through others as well."""
    seen, open_ = set(), list(graph.get(room, ()))
    while open_:
        target = open_.pop()
        if target not in seen:
            seen.add(target)
            open_.extend(graph.get(target, ()))
    return seen


def drawn(graph):
    """The edges that do not follow from others."""
    return {room: {t for t in targets if not any(t in reach(graph, other) for other in targets - {t})}
            for room, targets in graph.items()}


def levels(graph):
    """Rooms by the length of the longest way down."""
    height = {}

    def measure(room):
        if room not in height:
            height[room] = 1 + max((measure(t) for t in graph.get(room, ())), default=-1)
        return height[room]

    for room in graph:
        measure(room)
    rows = [[] for _ in range(max(height.values()) + 1)]
    for room in sorted(height):
        rows[height[room]].append(room)
    return rows


def svg(graph):
    """The picture: what is included below what includes it."""
    rows = levels(graph)
    across = max(len(row) for row in rows)
    total_x = across * (WIDTH + GAP_X) + GAP_X
    total_y = len(rows) * (HEIGHT + GAP_Y) + GAP_Y
    at = {}
    for level, row in enumerate(reversed(rows)):
        left = (total_x - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        for i, room in enumerate(row):
            at[room] = (left + i * (WIDTH + GAP_X), GAP_Y / 2 + level * (HEIGHT + GAP_Y))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_x:g} {total_y:g}" font-family="sans-serif" '
             'font-size="11">',
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>',
             f'<rect width="{total_x:g}" height="{total_y:g}" fill="#fff"/>']
    for room, targets in sorted(drawn(graph).items()):
        for target in sorted(targets):
            (x, y), (u, v) = at[room], at[target]
            lines.append(f'<line x1="{x + WIDTH / 2:g}" y1="{y + HEIGHT:g}" x2="{u + WIDTH / 2:g}" y2="{v:g}" '
                         'stroke="#888" marker-end="url(#tip)"/>')
    for room, (x, y) in sorted(at.items()):
        color = "#e8f0e0" if room.startswith("include") else "#f4e8dc" if room.startswith("backends") else "#e0e8f4"
        lines.append(f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="{color}" stroke="#555"/>')
        lines.append(f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 4:g}" text-anchor="middle">{room}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main():
    graph = edges()
    for room, targets in sorted(graph.items()):
        print(f"{room}: {' '.join(sorted(targets))}")
    if found := circle(graph):
        sys.exit("a circle: " + " -> ".join(found))
    picture = svg(graph)
    if "--check" not in sys.argv:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        sys.exit(f"{PICTURE.name} is another one; draw it again: python3 docs/house.py")


if __name__ == "__main__":
    main()
