"""Where the time of a build goes, and the README's times.

    build_times.py show build/release              seconds of each room and target, the 20 dearest files
    build_times.py templates build/release         the templates that cost most, by clang++'s -ftime-trace
    build_times.py measure build/times README.md   builds from nothing without a compiler's cache, runs the tests, and
                                                   writes the times between the README's <!-- times --> marks
    build_times.py ratio g++ source.cpp -Iinclude  a source file beside an empty one with the same standard headers: the
                                                   memory that g++ allocates, which is the same in every run
    build_times.py headers docs/contributing.md    what each public header costs alone, written between the page's
                                                   <!-- headers --> marks
    build_times.py relinked build/times            what was linked more than once in a tree that was built only once
    build_times.py shares build/times              writes .cmake/build_seconds.txt, by which a first build says how long it
                                                   takes; for a tree that was built with one step at a time

Seconds of `show` are how long a step of the build ran: processor seconds where no more steps ran than there are cores.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

MARK = "<!-- times -->"
HEADERS_MARK = "<!-- headers -->"


class Step:
    """One step of a build: what it made, and how many seconds it ran."""

    def __init__(self, output, seconds):
        self.output = output
        self.seconds = seconds

    @property
    def target(self):
        found = re.search(r"CMakeFiles/([^/]+)\.dir/", self.output)
        return found.group(1) if found else self.output

    @property
    def room(self):
        """The folder of the source tree; for what is linked, 'link'."""
        if not self.output.endswith((".o", ".gch")):
            return "link"
        before, target = self.output.split("CMakeFiles/")[0].strip("/"), self.target
        if before in ("engine", "backends"):
            name = re.sub(r"^lockstep_(backend_)?", "", target)
            return f"{before}/{name}"
        if before == "tests":
            return "tests/" + re.sub(r"^tests_", "", target)
        return before or "precompiled headers"


def log_lines(build):
    """The lines of ninja's log, oldest first: (start, end, output, command's hash), times in milliseconds."""
    for line in (build / ".ninja_log").read_text().splitlines():
        if line.startswith("#"):
            continue
        start, end, _, output, command = line.split("\t")
        yield int(start), int(end), output, command


def steps_of(build):
    """The last time that each output was made; a step that makes several things counts once."""
    last = {output: (start, end, command) for start, end, output, command in log_lines(build)}
    steps = {}
    for output, key in last.items():
        if key not in steps or len(output) < len(steps[key].output):
            steps[key] = Step(output, (key[1] - key[0]) / 1000)
    return list(steps.values())


def print_table(title, rows, count=None):
    print(f"\n{title}")
    for name, (seconds, number) in sorted(rows.items(), key=lambda row: -row[1][0])[:count]:
        print(f"{seconds:9.1f} {number:5d}  {name}")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return re.sub(r"\s+", " ", line.split(":", 1)[1]).strip()
    return "unknown processor"


def show(arguments):
    steps = steps_of(arguments.build)
    print(f"{processor()}: {len(steps)} steps, {sum(step.seconds for step in steps):.0f} s")
    for title, name_of, count in (
        ("seconds, steps, room", lambda step: step.room, None),
        ("seconds, steps, target", lambda step: step.target, 20),
        ("seconds, steps, file", lambda step: step.output, arguments.files),
    ):
        rows = collections.defaultdict(lambda: (0.0, 0))
        for step in steps:
            seconds, number = rows[name_of(step)]
            rows[name_of(step)] = (seconds + step.seconds, number + 1)
        print_table(title, rows, count)


def shares(arguments):
    """Writes the seconds of each target that the target train builds."""
    inputs = subprocess.run(
        ["ninja", "-C", str(arguments.build), "-t", "inputs", "train"], capture_output=True, text=True, check=True
    ).stdout
    needed = set(inputs.split())
    seconds = collections.Counter()
    for step in steps_of(arguments.build):
        if step.output in needed and step.target.startswith("lockstep_"):
            seconds[step.target.removeprefix("lockstep_")] += step.seconds
    table = pathlib.Path(__file__).parents[1] / ".cmake" / "build_seconds.txt"
    comment = [line for line in table.read_text().splitlines() if line.startswith("#")]
    rows = [f"{target} {taken:.1f}" for target, taken in sorted(seconds.items())]
    table.write_text("\n".join(comment + rows) + "\n")
    return 0


def relinked(arguments):
    """Fails if a library or a program has been made by two steps of the log."""
    times = collections.Counter(
        output for _, _, output, _ in log_lines(arguments.build) if re.match(r"(bin|lib)/[^/]+$", output)
    )
    again = {output: count for output, count in times.items() if count > 1}
    for output, count in sorted(again.items()):
        print(f"{output} was linked {count} times")
    return 1 if again else 0


def traced_command(entry, compiler, folder):
    """A compilation of compile_commands.json as clang++ takes it, with no precompiled header, traced into folder."""
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if re.search(r"(g|c|clang)\+\+[-0-9.]*$", word))
    command, words = [compiler, "-w", "-ftime-trace", "-ftime-trace-granularity=100"], words[start + 1 :]
    while words:
        word = words.pop(0)
        if word == "-o":
            words.pop(0)
        elif word == "-include":
            # The header itself, out of its folder: clang++ would take g++'s precompiled form for its own.
            header = folder / "precompiled.h"
            shutil.copy(words.pop(0), header)
            command += ["-include", str(header)]
        elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
            command.append(word)
    return command + ["-o", str(folder / "traced.o")]


def templates(arguments):
    """Sums what clang++ says of each template over the files that took longest."""
    compiler = shutil.which(arguments.compiler)
    if not compiler:
        print(f"{arguments.compiler} was not found")
        return 1
    commands = json.loads((arguments.build / "compile_commands.json").read_text())
    entries = {re.search(r" -o (\S+)", entry["command"]).group(1): entry for entry in commands}
    dearest = sorted((step for step in steps_of(arguments.build) if step.output in entries), key=lambda s: -s.seconds)
    spent = collections.defaultdict(lambda: (0.0, 0))
    for step in dearest[: arguments.files]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            command = traced_command(entries[step.output], compiler, folder)
            done = subprocess.run(command, cwd=entries[step.output]["directory"], capture_output=True, text=True)
            trace = folder / "traced.json"
            if done.returncode or not trace.exists():
                print(f"{step.output}: clang++ does not compile it: {done.stderr.splitlines()[:1]}")
                continue
            for event in json.loads(trace.read_text())["traceEvents"]:
                if event["name"] in ("InstantiateClass", "InstantiateFunction"):
                    template = re.sub(r"<.*", "<>", event["args"]["detail"])
                    seconds, number = spent[template]
                    spent[template] = (seconds + event["dur"] / 1e6, number + 1)
    print_table("seconds with all that it instantiates, times, template", spent, 30)
    return 0


def measured(command, **options):
    """(seconds of waiting, seconds of processors) of a command that must succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, **options)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    return end - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def minutes(seconds):
    return f"{seconds / 60:.0f}" if seconds >= 600 else f"{seconds / 60:.1f}"


def sentence(times):
    """What the README says, wrapped as it is."""
    text = (
        f"- Time, after the download, on {times['cores']} cores ({times['processor']}): the first command compiles for "
        f"{minutes(times['train'][0])} minutes ({minutes(times['train'][1])} of processor time) and then trains, half a "
        f"minute to three; the second compiles for {minutes(times['test'][0])} ({minutes(times['test'][1])}) and runs "
        f"the tests in {minutes(times['ctest'][0])}."
    )
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) >= 119:
            lines, line = lines + [line], " "
        line += (" " if line.strip() else ("" if not line else " ")) + word
    return "\n".join(lines + [line]) + "\n"


def write_between(page, mark, text):
    """Puts the text between the two marks."""
    parts = page.read_text().split(mark + "\n")
    if len(parts) != 3:
        sys.exit(f"{page} must have two lines {mark}")
    page.write_text(parts[0] + mark + "\n" + text + mark + "\n" + parts[2])


def measure(arguments):
    """Builds what the two commands build, one after the other, and runs the tests."""
    build = arguments.build
    record = build / "times.json"
    if arguments.given:
        times = json.loads(arguments.given.read_text())
    else:
        if build.exists() and not (build / "CMakeCache.txt").exists():
            sys.exit(f"{build} is no build tree: it is not removed")
        shutil.rmtree(build, ignore_errors=True)
        environment = os.environ | {"CCACHE_DISABLE": "1"}
        subprocess.run(["cmake", "--preset", "fetch", "-B", build], check=True, env=environment)
        train = measured(["cmake", "--build", build, "--target", "lockstep_program"], env=environment)
        rest = measured(["cmake", "--build", build], env=environment)
        times = {
            "processor": processor(),
            "cores": len(os.sched_getaffinity(0)),
            "train": train,
            "test": [train[0] + rest[0], train[1] + rest[1]],
        }
        record.write_text(json.dumps(times))
        times["ctest"] = measured(["ctest", "--test-dir", build, "-j3", "-LE", "^long$", "--output-on-failure"])
        record.write_text(json.dumps(times))
        if relinked(arguments):
            return 1
    print(sentence(times), end="")
    if arguments.readme:
        write_between(arguments.readme, MARK, sentence(times))
    return 0


def standard_headers(compiler, source, flags):
    """Names of the standard library's headers that a source file reads."""
    made = subprocess.run([compiler, *flags, "-M", source], capture_output=True, text=True, check=True).stdout
    found = {os.path.basename(word) for word in made.split() if re.search(r"/c\+\+/[0-9.]+/[a-z_]+$", word)}
    return sorted(found)


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def allocated_megabytes(command):
    """What g++ allocates for a compilation, by its own report: near proportional to its time, and no matter of load."""
    report = subprocess.run([*command, "-ftime-report"], capture_output=True, text=True, check=True).stderr
    total = re.search(r"^ *TOTAL .* ([0-9.]+)([kMG])\b", report, re.M)
    if not total:
        sys.exit(f"{command[0]} does not say what it allocates: -ftime-report of g++ ends with a line TOTAL")
    return float(total.group(1)) * {"k": 1e-3, "M": 1, "G": 1e3}[total.group(2)]


def ratio(arguments, flags):
    """A source beside an empty one that includes the same standard headers."""
    with tempfile.TemporaryDirectory() as name:
        empty = pathlib.Path(name) / "empty.cpp"
        headers = standard_headers(arguments.compiler, arguments.source, flags)
        empty.write_text("".join(f"#include <{header}>\n" for header in headers))
        source_cost, empty_cost = (
            allocated_megabytes([arguments.compiler, *flags, "-c", source, "-o", empty.with_suffix(".o")])
            for source in (arguments.source, empty)
        )
    found = source_cost / empty_cost
    print(
        f"{arguments.source}: {source_cost:.0f} MB, {found:.2f} times its {len(headers)} standard headers' "
        f"{empty_cost:.0f} MB, at most {arguments.at_most} allowed"
    )
    return 0 if found <= arguments.at_most else 1


def best_seconds(command, rounds=3):
    return min(processor_seconds(command) for _ in range(rounds))


def header_table(compiler, include, readme):
    """What each public header costs alone, in rows of headers that cost the same, and what all of them cost together."""
    flags = ["-std=c++20", "-O1", f"-I{include}", "-c"]
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name) / "source.cpp"

        def cost(text):
            source.write_text(text)
            return best_seconds([compiler, *flags, source, "-o", source.with_suffix(".o")])

        costs = collections.defaultdict(list)
        for header in sorted(include.glob("lockstep/**/*.h")):
            if header.name not in ("aten.h", "lockstep.h") and header.parent.name != "backend":
                shown = str(header.relative_to(include / "lockstep"))
                costs[f"{cost(f'#include <lockstep/{shown}>'):.1f}"].append(f"`{shown}`")
        source.write_text("#include <lockstep/lockstep.h>\n")
        standard = standard_headers(compiler, source, flags[:-1])
        rows = [
            ("an empty file", cost("")),
            (f"the {len(standard)} standard headers that `lockstep.h` reads",
             cost("".join(f"#include <{header}>\n" for header in standard))),
            ("`lockstep.h`", cost("#include <lockstep/lockstep.h>\n")),
            ("the README's program", cost(re.search(r"```cpp\n(.*?)```", readme.read_text(), re.S).group(1))),
        ]
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [f"{processor()}, {compiler} {version}, -O1:", "", "| a file that holds nothing but | seconds |", "|---|---|"]
    lines += [f"| {what} | {seconds:.2f} |" for what, seconds in rows]
    lines += [f"| {', '.join(names)} | {seconds} |" for seconds, names in sorted(costs.items(), reverse=True)]
    return "\n".join(lines) + "\n"


def headers(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    table = header_table(arguments.compiler, root / "include", root / "README.md")
    print(table, end="")
    if arguments.page:
        write_between(arguments.page, HEADERS_MARK, table)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("show", "templates", "relinked", "shares", "measure"):
        command = commands.add_parser(name)
        command.add_argument("build", type=pathlib.Path, help="the build tree")
        if name in ("show", "templates"):
            command.add_argument("--files", type=int, default=20 if name == "show" else 8, help="how many of them")
        if name == "templates":
            command.add_argument("--compiler", default="clang++")
        if name == "measure":
            command.add_argument("readme", type=pathlib.Path, nargs="?", help="where the times are written")
            command.add_argument("--given", type=pathlib.Path, help="a times.json of before: nothing is built")
    command = commands.add_parser("ratio")
    command.add_argument("compiler")
    command.add_argument("source")
    command.add_argument("--at-most", type=float, default=1.6)
    command = commands.add_parser("headers")
    command.add_argument("page", type=pathlib.Path, nargs="?", help="where the table is written")
    command.add_argument("--compiler", default="g++")
    arguments, flags = parser.parse_known_args()
    if arguments.command == "ratio":
        return ratio(arguments, flags)
    if flags:
        parser.error(f"unknown: {flags}")
    run = {"show": show, "templates": templates, "relinked": relinked, "shares": shares, "measure": measure,
           "headers": headers}
    return run[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
