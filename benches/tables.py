"""What rows of measurements say beside each other: as text and as a plot."""

import math


def is_bfloat16(name):
    """Such systems are compared with each other, and their losses with float32's."""
    return name.endswith((" bf16", " autocast"))


def is_peer(name):
    return not name.startswith("lockstep")


def counting(rows):
    """Medians of the rows that count."""
    return {n: r["median_ms"] for n, r in rows.items() if r["counts"]}


def best_peers(rows):
    """By whether it is in bfloat16, the name of the fastest peer that counts, or None."""
    peers = {n: ms for n, ms in counting(rows).items() if is_peer(n)}
    return {b: min((n for n in peers if is_bfloat16(n) == b), key=peers.get, default=None) for b in (False, True)}


def difference(losses, others):
    """The largest relative one of all steps; infinite where one is not a number."""
    apart = [abs(a - b) / abs(b) if b else math.inf * abs(a) for a, b in zip(losses, others)]
    return max(math.inf if math.isnan(d) else d for d in apart)


def losses_agree(rows, bfloat16):
    """How far the losses of these systems lie from Lockstep's in float32 at most; None where there is nothing to compare."""
    if "lockstep" not in rows:
        return None
    compared = [r["losses"] for n, r in rows.items() if n != "lockstep" and is_bfloat16(n) == bfloat16]
    return max((difference(losses, rows["lockstep"]["losses"]) for losses in compared), default=None)


def heading(processor, versions):
    """The machine and, by system, the versions of what it is made of."""
    lines = [f"{processor['model']} (family {processor['family']}, model {processor['number']}), "
             f"{processor['cores']} cores, second-level cache {processor['second_level_cache']}"]
    for system, parts in versions.items():
        lines.append(f"  {system}: " + ", ".join(f"{name} {version}" for name, version in parts.items()))
    return "\n".join(lines)


def titles(workload, result):
    spreads = []
    for key, text in (("loss_spread", ""), ("bf16_loss_spread", "in bfloat16 ")):
        if result[key] is not None:
            spreads.append(f"{text}within {result[key]:.1e}")
    lines = [workload + (": losses of steps 1 to 5 " + ", ".join(spreads) if spreads else "")]
    for when, machine in zip(("before", "after"), result["machine"]):
        lines.append(f"  one device {when}: product {machine['product_gflops']:.0f} GFLOP/s, "
                     f"copy {machine['copy_gbytes']:.1f} GB/s")
    return lines


def why_not(row):
    if row["counts"]:
        return ""
    return f"  {'noisy' if row['noisy'] else 'disturbed'} ({row['samples']} samples), does not count"


def row_text(name, rows, best):
    row, medians = rows[name], counting(rows)
    text = f"  {name:22} {row.get('median_ms', math.nan):10.3f} ms  first call {row['first_call_s']:7.3f} s"
    text += f"  start to first loss {row['start_s']:6.2f} s  memory {row['memory_mib']:6.0f} MiB"
    if best and not is_peer(name) and name in medians:
        text += f"  {medians[name] / medians[best]:.2f} of {best}"
    if not is_peer(name) and "jax" in rows:
        text += f"  first call {row['first_call_s'] / rows['jax']['first_call_s']:.3f} of jax's"
    return text + why_not(row)


def own_ratios(rows):
    """Of Lockstep's systems to each other, where both count."""
    medians, lines = counting(rows), []
    for name, other, text in (("lockstep 1 device", "lockstep", "two devices {:.2f} times as fast as one"),
                              ("lockstep V=8", "lockstep", "V=8 takes {:.2f} of lockstep's time")):
        if name in medians and other in medians:
            lines.append("  " + text.format(medians[name] / medians[other]))
    return lines


def table(results):
    lines = []
    for workload, result in results.items():
        rows = result["rows"]
        best = best_peers(rows)
        lines += titles(workload, result)
        lines += [row_text(name, rows, best[is_bfloat16(name)]) for name in rows]
        lines += own_ratios(rows)
        lines += [f"  {name:22} {reason}" for name, reason in result["absent"].items()]
    return "\n".join(lines)


def bars(rows, best, y):
    """A bar a system, as long as its median over the best peer's; without a peer its time alone."""
    medians, lines = counting(rows), []
    for name in rows:
        ms = medians[name]
        ratio = ms / medians[best] if best else 1
        width = min(ratio, 6) * 80
        colour = "#a0a0a0" if is_peer(name) else "#2060c0"
        label = f"{ratio:.2f} ({ms:.2f} ms)" if best else f"{ms:.2f} ms"
        lines.append(f'<text x="90" y="{y + 12}">{name}</text>')
        lines.append(f'<rect x="250" y="{y}" width="{width:.0f}" height="14" fill="{colour}"/>')
        lines.append(f'<text x="{256 + width:.0f}" y="{y + 12}">{label}</text>')
        y += 18
    return lines, y


def plot(results):
    """Bars of each system's median over the best peer's, in float32 and, below, in bfloat16."""
    lines, y = [], 20
    for workload, result in results.items():
        best = best_peers(result["rows"])
        for bfloat16 in (False, True):
            rows = {n: r for n, r in result["rows"].items() if r["counts"] and is_bfloat16(n) == bfloat16}
            if rows:
                lines.append(f'<text x="10" y="{y + 12}" font-weight="bold">{workload}{" bf16" * bfloat16}</text>')
                added, y = bars(rows, best[bfloat16], y)
                lines += added
                y += 12
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{y + 10}" {style}>' + "".join(lines) + "</svg>\n"
