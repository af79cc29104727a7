"""Writes tests/golden/sweep/<family>.txt: values and derivatives by mpmath at kinks, ends, infinities and in tails.

    pip install mpmath==1.4.1
    python tests/golden/sweep/mpmath_sweep.py [family ...]

A line is a function's name, its point, its value, its gradient and the upper triangle of its Hessian: numbers separated by
spaces, groups by "|". Points are exact, in hexadecimal; what mpmath gave with 50 digits and more is written with 19, `*`
where nothing is held against it.
"""

import sys
from multiprocessing import Pool
from pathlib import Path

from mpmath import mp, mpf

from exact_derivatives import Undefined, exact
from functions import FAMILIES

DIGITS = 19


def text(v):
    if v is None:
        return "*"
    v = mpf(v)
    if mp.isinf(v):
        return "inf" if v > 0 else "-inf"
    if v != 0 and abs(v) < mpf(10) ** -350:
        return "0"
    return mp.nstr(v, DIGITS, min_fixed=-3, max_fixed=6).removesuffix(".0")


def hexadecimal(v):
    mantissa, _, exponent = float(v).hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{int(exponent)}" if exponent else mantissa


def line(job):
    family, number, point = job
    function = FAMILIES[family]()[number]
    key = point if point in function.meant else point[0]
    try:
        if key in function.meant:
            numbers = function.meant[key]
        else:
            numbers = exact(function.f, point, function.ends.get(point[0], 0), function.digits)
    except (Undefined, ZeroDivisionError, ValueError) as error:
        return f"{function.name} at {point}: {error}", None
    n = len(point)
    groups = [[hexadecimal(v) for v in point], [text(numbers[0])], [text(v) for v in numbers[1 : n + 1]],
              [text(v) for v in numbers[n + 1 :]]]
    return None, " | ".join([function.name] + [" ".join(group) for group in groups])


def main(families):
    mp.dps = 60
    for family in families or FAMILIES:
        jobs = [(family, i, p) for i, f in enumerate(FAMILIES[family]()) for p in f.all_points()]
        with Pool() as pool:
            results = pool.map(line, jobs, chunksize=8)
        for error in [e for e, _ in results if e]:
            print("not settled:", error)
        path = Path(__file__).parent / f"{family}.txt"
        path.write_text("\n".join(l for _, l in results if l) + "\n")
        print(path.name, len(results), "points")


if __name__ == "__main__":
    main(sys.argv[1:])
