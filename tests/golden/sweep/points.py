"""Where functions are tried: zeros, subnormals, ordinary numbers, tails and infinities, each exact in the dtypes it is for.

A point is a number of few bits, which all float dtypes that reach it hold, or one with the bits of a float32 or a float64.
"""

import math

INF = math.inf

# 2^-24, -133, -149, -1074: the smallest subnormals of float16, bfloat16, float32 and float64; then the smallest normals.
SUBNORMALS = [2.0**-24, 2.0**-133, 2.0**-149, 2.0**-1074]
NORMALS = [2.0**-14, 2.0**-126, 2.0**-1022]
SMALL = [2.0**-30, 2.0**-10, 2.0**-5]
# 0.1, 1.2, ... to the bits of float32; numbers with all the bits of float64.
FULL = [float.fromhex(x) for x in ["0x1.99999ap-4", "0x1.333334p+0", "0x1.b7e152p+1", "0x1.5bf0a8b145769p+1"]]
MIDDLE = [0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4.5, 5.5]
TAILS = [7, 9.5, 12, 17.5, 20, 40, 87, 89, 104, 120, 200, 708, 712, 744, 750, 1000]
FAR = [2.0**15, 2.0**40, 2.0**100, 2.0**127, 2.0**600, 2.0**1023]

POSITIVE = SUBNORMALS + NORMALS + SMALL + FULL + MIDDLE + TAILS + FAR


def mirrored(values):
    return [-v for v in reversed(values)] + list(values)


def all_reals():
    return [-INF] + mirrored(POSITIVE) + [INF]  # zero is its own line


def within(low, high, *more):
    """Those above `low` and below `high`, zero too, and `more`."""
    chosen = [v for v in mirrored(POSITIVE) + [0.0] if low < v < high]
    return sorted(set(chosen + list(more)))


def smooth():
    return within(-INF, INF, -INF, INF)


def few(low, high, *more):
    """Fewer of them, for tuples of several."""
    some = [2.0**-126, 2.0**-24, 2.0**-10, 0.25, 1, 1.5, 3, 17.5, 40, 104, 1000, 2.0**100]
    return sorted(set([v for v in mirrored(some) + [0.0] if low < v < high] + list(more)))
