"""What an exact derivative is: values, gradients and Hessians by mpmath, at points that may be infinite or an end.

A function takes and gives mpf numbers. Its derivatives are central differences with two steps and two numbers of digits,
and both have to agree to 25 digits; where they do not, the function has no second derivative there, and the table has to
say what is meant. An infinity stands for 1e400 and 1e800, an end of the domain for its neighbours at 1e-400 and 1e-800:
what grows from one to the other is infinite, what shrinks is 0.
"""

import itertools

from mpmath import mp, mpf

FAR = 400  # beyond every dtype, in decimal digits
NOTHING = mpf(10) ** -360


class Undefined(Exception):
    """The differences do not settle."""


def pairs(n):
    return list(itertools.combinations_with_replacement(range(n), 2))


def differences(f, x, digits, step_digits, scales):
    """[value, gradient..., Hessian...], with an error of second order in the step."""
    with mp.workdps(digits):
        h = [s * mpf(10) ** -step_digits for s in scales]

        def at(*moves):
            y = list(x)
            for i, sign in moves:
                y[i] = y[i] + sign * h[i]
            return f(*y)

        middle = at()
        sides = [(at((i, 1)), at((i, -1))) for i in range(len(x))]
        result = [middle] + [(up - down) / (2 * h[i]) for i, (up, down) in enumerate(sides)]
        for i, j in pairs(len(x)):
            if i == j:
                result.append((sides[i][0] - 2 * middle + sides[i][1]) / h[i] ** 2)
                continue
            corners = [at((i, a), (j, b)) * (a * b) for a in (1, -1) for b in (1, -1)]
            result.append(sum(corners) / (4 * h[i] * h[j]))
        return [+r for r in result]


def settled(a, b):
    """b, if a with fewer digits says the same."""
    if abs(b) < NOTHING or abs(b) < abs(a) * mpf(10) ** -60:
        return mpf(0)
    if not abs(a - b) <= abs(b) * mpf(10) ** -25:
        raise Undefined(f"{mp.nstr(a, 10)} and {mp.nstr(b, 10)}")
    return b


def of_finite(f, x, distances, digits):
    """`distances`: of each variable, how far the function is smooth."""
    size = max([0] + [abs(int(mp.log10(d))) for d in distances if d != 0] + [int(mp.log10(abs(v) + 1)) for v in x])
    steps = (40, 50) if digits else (60, 100)
    few = digits or 1000 + 4 * size
    many = few + 60 if digits else few + 500
    x = [v if isinstance(v, mpf) else mpf(v) for v in x]  # mpf would round again
    a = differences(f, x, few, steps[0], distances)
    b = differences(f, x, many, steps[1], distances)
    return [settled(p, q) for p, q in zip(a, b)]


def limit(a, b):
    if b == 0 or abs(b) < abs(a) * mpf("0.9"):
        return mpf(0)
    if abs(b) > abs(a) * mpf("1.2"):
        return mp.inf if b > 0 else -mp.inf
    return b


def distance(v):
    return min(abs(v), mpf(1)) if v != 0 else mpf(1)


def exact(f, point, end=0, digits=None):
    """The derivatives at a point; `end` is the side, +1 or -1, from which the only variable comes to an end.

    `digits` for functions that are slow in many: they are taken to be smooth, with all digits that differences need.
    """
    if not any(mp.isinf(v) for v in point) and not end:
        return of_finite(f, point, [distance(v) for v in point], digits)
    results = []
    for far in (FAR, 2 * FAR):
        with mp.workdps(2 * far + 50):
            moved = [mp.sign(v) * mpf(10) ** far if mp.isinf(v) else v + end * mpf(10) ** -far for v in point]
            distances = [mpf(10) ** -far if end else distance(v) for v in moved]
        results.append(of_finite(f, moved, distances, None))
    return [limit(a, b) for a, b in zip(*results)]
