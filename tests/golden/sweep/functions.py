"""The functions of the sweep as mathematics has them, each under the name that the test's table calls it by."""

from dataclasses import dataclass, field

from mpmath import mp, mpf

from points import INF, few, smooth, within


@dataclass
class Function:
    """`meant`: what holds at a point where there is no derivative, {point: [value, gradient..., Hessian...]}; None stands
    for what is not held. `ends`: ends of the domain, {point: side}. `digits`: see exact_derivatives.exact."""

    name: str
    f: object
    points: list
    meant: dict = field(default_factory=dict)
    ends: dict = field(default_factory=dict)
    digits: int | None = None

    def all_points(self):
        tuples = [p if isinstance(p, tuple) else (p,) for p in self.points]
        more = [p if isinstance(p, tuple) else (p,) for p in [*self.meant, *self.ends]]
        return sorted(set(tuples + more))


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def kinked(*pieces, at):
    """Pieces between the ends `at`."""

    def f(x):
        for piece, end in zip(pieces, at):
            if x <= end:
                return piece(x)
        return pieces[-1](x)

    return f


def zero(x):
    return mpf(0)


def same(x):
    return x


def exponential_unit(scale, alpha, width):
    return kinked(lambda x: scale * alpha * mp.expm1(x / width), lambda x: scale * x, at=[0])


def constant(text):
    """As a C++ program has it, in double."""
    return mpf(float(text))


def elementary():
    reals, positive = smooth(), within(0, INF, INF)
    bounded = within(-1, 1)
    nan = None
    return [
        Function("exp", mp.exp, reals),
        Function("exp2", lambda x: mpf(2) ** x, reals),
        Function("expm1", mp.expm1, reals),
        Function("log", mp.log, positive, ends={0.0: 1}),
        Function("log2", lambda x: mp.log(x) / mp.log(2), positive, ends={0.0: 1}),
        Function("log10", mp.log10, positive, ends={0.0: 1}),
        Function("log1p", mp.log1p, within(-1, INF, INF), ends={-1.0: 1}),
        Function("sqrt", mp.sqrt, positive, ends={0.0: 1}),
        Function("rsqrt", lambda x: 1 / mp.sqrt(x), positive, ends={0.0: 1}),
        Function("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), [v for v in reals if v != 0]),
        Function("square", lambda x: x * x, reals),
        Function("reciprocal", lambda x: 1 / x, [v for v in reals if v != 0]),
        Function("integer_pow(3)", lambda x: x**3, reals),
        Function("integer_pow(-2)", lambda x: x**-2, [v for v in reals if v != 0]),
        Function("abs", abs, [v for v in reals if v != 0], meant={0.0: [0, 0, 0]}),
        Function("sin", mp.sin, within(-2.0**41, 2.0**41)),
        Function("cos", mp.cos, within(-2.0**41, 2.0**41)),
        Function("tan", mp.tan, within(-2.0**41, 2.0**41)),
        Function("asin", mp.asin, bounded, ends={-1.0: 1, 1.0: -1}),
        Function("acos", mp.acos, bounded, ends={-1.0: 1, 1.0: -1}),
        Function("atan", mp.atan, reals),
        Function("sinh", mp.sinh, reals),
        Function("cosh", mp.cosh, reals),
        Function("tanh", mp.tanh, reals),
        Function("asinh", mp.asinh, reals),
        Function("acosh", mp.acosh, within(1, INF, INF), ends={1.0: 1}),
        Function("atanh", mp.atanh, bounded, ends={-1.0: 1, 1.0: -1}),
        Function("sinc", lambda x: mp.sin(mp.pi * x) / (mp.pi * x) if x != 0 else mpf(1), within(-200, 200)),
    ]


def spence(x):
    """Where 1 - x is a number of few digits or not."""
    if x <= 2:
        return mp.re(mp.polylog(2, 1 - x))
    return -mp.re(mp.polylog(2, 1 - 1 / x)) - mp.log(x) ** 2 / 2


def dawson(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def special():
    reals = smooth()
    near, positive = within(-41, 41), [v for v in within(0, 41) if v > 1e-50]
    bounded = [v for v in within(-1, 1) if v == 0 or abs(v) > 1e-15]
    away = [v for v in near if v == 0 or abs(v) > 1e-5]
    shapes = [v for v in positive if 1e-3 < v < 30]
    return [
        Function("logistic", sigmoid, reals),
        Function("erf", mp.erf, near),
        Function("erfc", mp.erfc, near),
        Function("erf_inv", erf_inv, bounded, digits=160),
        Function("lgamma", lambda x: mp.loggamma(x), positive, digits=170),
        Function("digamma", lambda x: mp.digamma(x), positive, digits=170),
        Function("polygamma(1)", lambda x: mp.zeta(2, x), [v for v in positive if v > 1e-3], digits=170),
        Function("gamma", mp.gamma, [v for v in positive if v > 1e-3], digits=170),
        Function("bessel_i0e", lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [v for v in within(-41, 41) if abs(v) > 1e-5], digits=170),
        Function("bessel_i1e", lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), [v for v in within(-41, 41) if abs(v) > 1e-5], digits=170),
        Function("i0", lambda x: mp.besseli(0, x), [v for v in near if v == 0 or abs(v) > 1e-5], digits=170),
        Function("i1", lambda x: mp.besseli(1, x), [v for v in near if v == 0 or abs(v) > 1e-5], digits=170),
        Function("bessel_j0", lambda x: mp.besselj(0, x), [v for v in near if v == 0 or abs(v) > 1e-5], digits=170),
        Function("bessel_j1", lambda x: mp.besselj(1, x), [v for v in near if v == 0 or abs(v) > 1e-5], digits=170),
        Function("exp1", mp.e1, [v for v in within(0, 750) if v > 1e-50], digits=170),
        Function("expi", mp.ei, [v for v in within(-750, 41) if abs(v) > 1e-50] + [0.375, 50.0, 700.0], digits=170),
        Function("spence", spence, [v for v in within(0, 1e6) if v > 1e-50], digits=170),
        Function("dawsn", dawson, away, digits=170),
        Function("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), [v for v in away if v > -26], digits=170),
        Function("sin_integral", mp.si, away, digits=170),
        Function("cos_integral", mp.ci, [v for v in away if v > 0], digits=170),
        Function("fresnel_s", mp.fresnels, [v for v in away if v != round(v)], digits=170),
        Function("fresnel_c", mp.fresnelc, [v for v in away if v == 0 or v != round(v)], digits=170),
        Function("expn(3)", lambda x: mp.expint(3, x), [v for v in away if v > 0 and v != 2], digits=170),
        Function("bessel_jn(4)", lambda x: mp.besselj(4, x), [v for v in away if v != 0], digits=170),
        Function("hyp1f1(0.5,1.25)", lambda x: mp.hyp1f1(0.5, 1.25, x), away, digits=170),
        Function("hyp2f1(0.5,0.75,1.25)", lambda x: mp.hyp2f1(0.5, 0.75, 1.25, x), [v for v in away if v < 1], digits=170),
        Function("entr", lambda x: -x * mp.log(x), within(0, INF, INF), ends={0.0: 1}),
        Function("logit", lambda x: mp.log(x / (1 - x)), within(0, 1), ends={0.0: 1, 1.0: -1}),
        Function("ndtr", ndtr, near),
        Function("log_ndtr", lambda x: mp.log(ndtr(x)), near),
        Function("igamma(0.5)", lambda x: mp.gammainc(0.5, 0, x, regularized=True), shapes, digits=120),
        Function("igamma(3)", lambda x: mp.gammainc(3, 0, x, regularized=True), [v for v in shapes if v != 2], digits=120),
        Function("igammac(3)", lambda x: mp.gammainc(3, x, mp.inf, regularized=True), [v for v in shapes if v != 2], digits=120),
        Function("betainc(2,3)", lambda x: mp.betainc(2, 3, 0, x, regularized=True), [0.125, 0.25, 0.5, 0.75], digits=120),
        Function("ndtri", lambda p: mp.sqrt(2) * erf_inv(2 * p - 1), [v for v in within(0, 1) if v > 1e-15], digits=200),
    ]


def erf_inv(y):
    """Newton's iteration from the value in few digits."""
    x = mp.erfinv(y) if mp.dps < 60 else None
    if x is None:
        target = mp.dps
        with mp.workdps(30):
            x = mp.erfinv(mpf(y))
        digits = 25
        while digits < 2 * target + 10:
            digits *= 2
            x = x - (mp.erf(x) - y) * mp.exp(x * x) * mp.sqrt(mp.pi) / 2
    return x


def activations():
    reals = smooth()
    apart = [v for v in reals if v != 0]
    alpha, scale = constant("1.6732632423543772848"), constant("1.0507009873554804934")
    tanh_factor = constant("0.79788456080286535588")

    def without(*ends):
        return [v for v in reals if v not in ends]

    return [
        Function("relu", kinked(zero, same, at=[0]), apart, meant={0.0: [0, 0, 0]}),
        Function("relu6", kinked(zero, same, lambda x: mpf(6), at=[0, 6]), without(0.0, 6.0),
                 meant={0.0: [0, 0, 0], 6.0: [6, 0, 0]}),
        Function("sigmoid", sigmoid, reals),
        Function("silu", lambda x: x * sigmoid(x), reals),
        Function("softplus", softplus, reals),
        Function("log_sigmoid", lambda x: -softplus(-x), reals),
        Function("gelu(approximate)", lambda x: x * sigmoid(2 * tanh_factor * (x + mpf(0.044715) * x**3)), reals),
        Function("gelu", lambda x: x * ndtr(x) if abs(x) < 1e5 else max(x, 0) * 1, within(-200, 200, -INF, INF)),
        Function("elu", exponential_unit(1, 1, 1), apart, meant={0.0: [0, 1, 1]}),
        Function("elu(0.25)", exponential_unit(1, mpf(0.25), 1), apart, meant={0.0: [0, 0.25, 0.25]}),
        Function("celu(0.25)", exponential_unit(1, mpf(0.25), mpf(0.25)), apart, meant={0.0: [0, 1, 4]}),
        Function("selu", exponential_unit(scale, alpha, 1), apart, meant={0.0: [0, scale * alpha, scale * alpha]}),
        Function("leaky_relu", kinked(lambda x: x * mpf(0.01), same, at=[0]), apart, meant={0.0: [0, 1, 0]}),
        Function("hard_tanh", kinked(lambda x: mpf(-1), same, lambda x: mpf(1), at=[-1, 1]), without(-1.0, 1.0),
                 meant={-1.0: [-1, 1, 0], 1.0: [1, 1, 0]}),
        Function("hard_sigmoid", kinked(zero, lambda x: (x + 3) / 6, lambda x: mpf(1), at=[-3, 3]), without(-3.0, 3.0),
                 meant={-3.0: [0, 0, 0], 3.0: [1, 0, 0]}),
        Function("hard_silu", kinked(zero, lambda x: x * (x + 3) / 6, same, at=[-3, 3]), without(-3.0, 3.0),
                 meant={-3.0: [0, 0, 0], 3.0: [3, 1, 0]}),
        Function("mish", lambda x: x * mp.tanh(softplus(x)), reals),
        Function("squareplus", lambda x: 2 / (mp.sqrt(x * x + 4) - x) if x < 0 else (x + mp.sqrt(x * x + 4)) / 2, reals),
        Function("soft_sign", lambda x: x / (abs(x) + 1), apart, meant={0.0: [0, 1, 0]}),
        Function("sparse_plus", kinked(zero, lambda x: (x + 1) ** 2 / 4, same, at=[-1, 1]), without(-1.0, 1.0),
                 meant={-1.0: [0, 0, 0], 1.0: [1, 1, 0]}),
        Function("sparse_sigmoid", kinked(zero, lambda x: (x + 1) / 2, lambda x: mpf(1), at=[-1, 1]),
                 without(-1.0, 1.0), meant={-1.0: [0, None, 0], 1.0: [1, None, 0]}),
        Function("log1mexp", lambda x: mp.log(-mp.expm1(-x)), within(0, INF, INF), ends={0.0: 1}),
    ]


def grid(*axes):
    result = [()]
    for axis in axes:
        result = [p + (v,) for p in result for v in axis]
    return result


def logaddexp(x, y):
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def x_log(x, y):
    return x * mp.log(y) if x != 0 else mpf(0)


def betaln(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def boxcox_of(logarithm):
    def f(x, power):
        return mp.expm1(power * logarithm(x)) / power if power != 0 else logarithm(x)

    return f


def boxcox_meant(logarithm, offset, values):
    """At power 0, where the definition has no value but a limit: log + power log^2 / 2 + power^2 log^3 / 6."""
    meant = {}
    with mp.workdps(60):
        for x in values:
            l = logarithm(mpf(x))
            slope = 1 / (mpf(x) + offset)
            meant[(x, 0.0)] = [l, slope, l**2 / 2, -slope**2, l * slope, l**3 / 3]
    return meant


def pairs():
    plane = grid(few(-INF, INF), [-1000, -40, -1.5, 0.0, 2.0**-24, 0.25, 1.5, 17.5, 104])
    positive = few(0, INF)
    unit = [0.25, 1, 1.5, 3, 17.5, 40]
    apart = [p for p in plane if p[0] != p[1]]
    ties = [-1000.0, -1.5, 0.0, 0.25, 104.0, 2.0**100]
    half = mpf(1) / 2
    return [
        Function("logaddexp", logaddexp, apart + [(-INF, 0.0), (-INF, 1.5), (0.25, -INF)],
                 meant={(t, t): [t + mp.log(2), half, half, half / 2, -half / 2, half / 2] for t in ties}),
        Function("logaddexp2", lambda x, y: logaddexp(x * mp.log(2), y * mp.log(2)) / mp.log(2), apart,
                 meant={(t, t): [t + 1, half, half, mp.log(2) / 4, -mp.log(2) / 4, mp.log(2) / 4] for t in ties}),
        Function("hypot", lambda x, y: mp.sqrt(x * x + y * y), [p for p in plane if p != (0.0, 0.0)]),
        Function("atan2", mp.atan2, [p for p in plane if p[1] > 0]),
        Function("div", lambda x, y: x / y, [p for p in plane if p[1] != 0]),
        Function("mul", lambda x, y: x * y, plane),
        Function("pow", lambda x, y: mp.power(x, y), grid(positive, [-1.5, -1, 0.0, 0.25, 1, 2, 3, 17.5])),
        Function("maximum", max, apart, meant={(t, t): [t, 0.5, 0.5, 0, 0, 0] for t in ties}),
        Function("minimum", min, apart, meant={(t, t): [t, 0.5, 0.5, 0, 0, 0] for t in ties}),
        Function("xlogy", x_log, grid(few(-INF, INF), positive)),
        Function("xlog1py", lambda x, y: x * mp.log1p(y), grid(few(-INF, INF), [-0.5, *few(0, INF), 0.0])),
        Function("rel_entr", lambda x, y: x * mp.log(x / y), grid(positive, positive)),
        Function("kl_div", lambda x, y: x * mp.log(x / y) - x + y, grid(unit, unit)),
        Function("boxcox", boxcox_of(mp.log), [p for p in grid(positive, [-1.5, -(2.0**-24), 2.0**-24, 2.0**-10, 0.25, 1, 3]) if p[0] != 1],
                 meant=boxcox_meant(mp.log, 0, positive)),
        Function("boxcox1p", boxcox_of(mp.log1p), grid([-0.5, *positive], [-1.5, 2.0**-24, 2.0**-10, 0.25, 1, 3]),
                 meant=boxcox_meant(mp.log1p, 1, [-0.5, *positive])),
        Function("betaln", betaln, grid(unit, unit), digits=200),
        Function("beta", lambda a, b: mp.exp(betaln(a, b)), grid(unit, unit), digits=200),
        Function("glu", lambda x, y: x * sigmoid(y), plane),
    ]


def cross_entropy(labels):
    """Against dense labels; a class of label 0 and logit -inf adds nothing."""

    def f(*logits):
        top = max(logits)
        total = top + mp.log(sum(mp.exp(v - top) for v in logits))
        return sum(mpf(p) * (total - v) for p, v in zip(labels, logits) if p != 0)

    return f


def logsumexp(*x):
    top = max(x)
    return top + mp.log(sum(mp.exp(v - top) for v in x))


def softmax_0(*x):
    return 1 / sum(mp.exp(v - x[0]) for v in x)


def weighted_logsumexp(x, y, a, b):
    return mp.log(a * mp.exp(x) + b * mp.exp(y))


def huber(x, y):
    return kinked(lambda e: -e - mpf(0.5), lambda e: e * e / 2, lambda e: e - mpf(0.5), at=[-1, 1])(x - y)


def product(x, y, z):
    return x * y * z


def variance(*x):
    return sum((v - sum(x) / 3) ** 2 for v in x) / 3


def losses():
    logits = few(-INF, INF)
    triples = [(0.0, 0.0, 0.0), (1.5, 1.5, -3.0), (40.0, 0.0, 1.0), (104.0, 0.0, 0.0), (0.0, 104.0, 40.0),
               (-1000.0, 0.0, 1000.0), (1000.0, 1000.0, 1000.0), (17.5, 0.0, -17.5), (2.0**100, 0.25, 0.5),
               (2.0**-24, 0.0, 2.0**-10), (20.0, 0.0, 0.0), (0.0, 20.0, -INF), (0.0, 0.0, -INF), (-INF, 0.25, 1.5)]
    finite = [t for t in triples if -INF not in t]
    zeros_among = [(0.0, 2.0, 3.0), (0.0, 0.0, 3.0), (0.0, 0.0, 0.0), (1.5, -3.0, 0.25), (2.0**-70, 2.0**-70, 2.0**100),
                   (2.0**-20, 2.0**-2, 1.0)]
    spread = [(1.5, 1.5, 1.5), (0.0, 1.0, 3.0), (1000.0, 1000.5, 1001.0), (0.25, -0.25, 40.0), (2.0**-12, 0.0, 2.0**-11),
              (2.0**30, 2.0**30 + 2.0**10, 2.0**30)]
    lengths = [(3.0, 0.0, -4.0), (1.5, 0.25, -3.0), (40.0, 0.0, 0.0), (1.0, 1.0, 1.0), (2.0**-14, 2.0**-13, -(2.0**-14)),
               (2.0**100, 2.0**99, 2.0**100), (2.0**-100, 2.0**-99, 2.0**-100), (2.0**15, -(2.0**15), 2.0**14)]

    def bce(x, y):
        return softplus(x) - x * y

    return [
        Function("binary_cross_entropy", bce, grid(logits, [0.0, 0.25, 1.0])),
        Function("binary_cross_entropy(0)", softplus, logits + [-INF, INF]),
        Function("binary_cross_entropy(1)", lambda x: softplus(-x), logits + [-INF, INF]),
        Function("mean_squared_error", lambda x, y: (x - y) ** 2, grid(few(-2, 41), [0.0, 1.0])),
        Function("mean_absolute_error", lambda x, y: abs(x - y), [p for p in grid(few(-2, 41), [0.0, 1.0]) if p[0] != p[1]],
                 meant={(1.0, 1.0): [0, 0, 0, 0, 0, 0]}),
        Function("huber", huber, [p for p in grid(few(-41, 41), [0.0, 1.0]) if abs(p[0] - p[1]) != 1],
                 meant={(1.0, 0.0): [0.5, 1, -1, None, None, None], (0.0, 1.0): [0.5, -1, 1, None, None, None]}),
        Function("logsumexp", logsumexp, triples),
        Function("logmeanexp", lambda *x: logsumexp(*x) - mp.log(3), triples),
        Function("logsumexp(weights)", weighted_logsumexp,
                 [(0.25, 1.5, 1.0, 0.0), (0.25, 1.5, 0.0, 1.0), (0.25, 1.5, 0.25, 3.0), (-1000.0, -999.0, 1.0, 0.5),
                  (40.0, 0.0, 0.0, 1.0)]),
        Function("softmax", softmax_0, triples),
        Function("log_softmax", lambda *x: x[0] - logsumexp(*x), finite + [(0.0, 20.0, -INF), (0.0, 0.0, -INF)]),
        Function("softmax(mask)", softmax_0, finite),
        Function("log_softmax(mask)", lambda *x: x[0] - logsumexp(*x), finite),
        Function("logsumexp(mask)", logsumexp, finite),
        Function("prod", product, zeros_among),
        Function("cumprod", product, zeros_among),
        Function("cumlogsumexp", logsumexp, finite),
        Function("var", variance, spread),
        Function("stddev", lambda *x: mp.sqrt(variance(*x)), spread[1:]),
        Function("norm", lambda *x: mp.sqrt(sum(v * v for v in x)), lengths),
        Function("norm(3)", lambda *x: sum(abs(v) ** 3 for v in x) ** (mpf(1) / 3), [p for p in lengths if 0 not in p]),
        Function("softmax_cross_entropy(integer)", cross_entropy([1, 0, 0]), triples[:-1]),
        Function("softmax_cross_entropy(dense)", cross_entropy([0.25, 0.75, 0]), triples[:-1]),
    ]


FAMILIES = {"elementary": elementary, "special": special, "activations": activations, "pairs": pairs, "losses": losses}
