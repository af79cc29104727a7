"""Writes small modules of StableHLO, each with the values that XLA computes of it, to stablehlo_cases.txt, for
tests/exchange/stablehlo_cases_test.cpp. Run by hand, on the CPU: python tests/golden/exchange/stablehlo_cases.py (needs jax
and numpy). Where the specification leaves a value open (NaN in an order of floats), there is no case."""

import os

import jax

from jax_programs import run

FOLDER = os.path.dirname(os.path.abspath(__file__))
CASES = []


def case(name, body, *types):
    """A function without arguments; `body` ends with the values that it returns."""
    lines = body.strip().split("\n")
    text = "\n".join(lines[:-1])
    returned = ", ".join(f"tensor<{t}>" for t in types)
    CASES.append((name, f"module {{ func.func public @main() -> ({returned}) {{\n{text}\nreturn {lines[-1]} : {returned}\n}} }}"))


def constant(name, values, type):
    """Of operands (x, y) the value is not known before the module runs: XLA folds -1 ** -3 to 0, true + true to false."""
    if name not in "xy":
        return f"%{name} = stablehlo.constant dense<{values}> : tensor<{type}>\n"
    return (f"%{name}0 = stablehlo.constant dense<{values}> : tensor<{type}>\n"
            f"%{name} = stablehlo.optimization_barrier %{name}0 : tensor<{type}>\n")


# ---- select_and_scatter
def windows(name, values, type, result, source, choose, join="add", start="0", element="i32", attributes=""):
    scalar = f"tensor<{element}>"
    case(name, constant("x", values, f"{type}x{element}") + constant("s", source, f"{result}x{element}") +
         constant("z", start, element) + f'''%0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{{{attributes}}}> ({{
^bb0(%a: {scalar}, %b: {scalar}):
{choose.replace("SCALAR", scalar)}
stablehlo.return %c : tensor<i1>
}}, {{
^bb0(%a: {scalar}, %b: {scalar}):
%c = stablehlo.{join} %a, %b : {scalar}
stablehlo.return %c : {scalar}
}}) : (tensor<{type}x{element}>, tensor<{result}x{element}>, {scalar}) -> tensor<{type}x{element}>
%0''', f"{type}x{element}")


def compared(direction, a="%a", b="%b", kind="SIGNED"):
    return f"%c = stablehlo.compare {direction}, {a}, {b}, {kind} : (SCALAR, SCALAR) -> tensor<i1>"


two = "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>"
for direction in ["GE", "GT", "LE", "LT"]:
    for a, b in [("%a", "%b"), ("%b", "%a")]:
        windows(f"select {direction} {a} {b} of integers", "[3, 1, 5, 5, 2, 4]", "6", "3", "[10, 20, 30]",
                compared(direction, a, b), attributes=two)
        windows(f"select {direction} {a} {b} of floats", "[3.0, 1.0, 5.0, 5.0, 2.0, 4.0]", "6", "3", "[10.0, 20.0, 30.0]",
                compared(direction, a, b, "FLOAT"), start="1.0", element="f32", attributes=two)
windows("select with padding", "[[3, 1, 5], [5, 2, 4], [7, 8, 0]]", "3x3", "2x2", "[[1, 2], [3, 4]]", compared("GE"),
        attributes="window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, "
                   "padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>")
windows("select overlapping, joined by maximum", "[3, 1, 5, 5, 2, 4]", "6", "4", "[10, 20, 30, 5]", compared("GE"),
        join="maximum", start="7", attributes="window_dimensions = array<i64: 3>")
windows("select by magnitude", "[-3.0, 1.0, 5.0, -6.0]", "4", "2", "[1.0, 2.0]",
        "%d = stablehlo.abs %a : SCALAR\n%e = stablehlo.abs %b : SCALAR\n" + compared("GE", "%d", "%e", "FLOAT"),
        start="0.0", element="f32", attributes=two)
windows("select of windows of padding", "[4, 9]", "2", "4", "[1, 2, 3, 4]", compared("GE"),
        attributes="window_dimensions = array<i64: 1>, padding = dense<1> : tensor<1x2xi64>")

# ---- comparisons
kinds = ["0xFFC00000", "0xFF800000", "-1.0", "-0.0", "0.0", "1.0", "0x7F800000", "0x7FC00000"]
row = f"[{', '.join(kinds)}]"
for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"]:
    for kind in ["FLOAT", "TOTALORDER"]:
        case(f"compare {direction} {kind}", constant("x", row, "8xf32") + f'''%a = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
%b = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
%0 = stablehlo.compare {direction}, %a, %b, {kind} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xi1>
%0''', "8x8xi1")
for element in ["f16", "bf16", "f64"]:
    case(f"compare TOTALORDER of {element}", constant("x", "[-1.0, -0.0, 0.0]", f"3x{element}") +
         constant("y", "[-2.0, 0.0, -0.0]", f"3x{element}") + f'''%0 = "stablehlo.compare"(%x, %y) <{{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}}> : (tensor<3x{element}>, tensor<3x{element}>) -> tensor<3xi1>
%0''', "3xi1")


# ---- sort
def sort(name, values, element, comparator, count=6):
    scalar = f"tensor<{element}>"
    case(name, constant("x", values, f"{count}x{element}") + f'''%i = stablehlo.iota dim = 0 : tensor<{count}xi32>
%zero = stablehlo.constant dense<0> : tensor<i32>
%0:2 = "stablehlo.sort"(%x, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
^bb0(%a: {scalar}, %b: {scalar}, %i0: tensor<i32>, %i1: tensor<i32>):
{comparator.replace("SCALAR", scalar)}
stablehlo.return %c : tensor<i1>
}}) : (tensor<{count}x{element}>, tensor<{count}xi32>) -> (tensor<{count}x{element}>, tensor<{count}xi32>)
%0#0, %0#1''', f"{count}x{element}", f"{count}xi32")


numbers = "[3.0, -1.0, 2.0, -0.0, 0.0, -4.0]"
sort("sort", numbers, "f32", compared("LT", kind="FLOAT"))
sort("sort descending", numbers, "f32", compared("GT", kind="FLOAT"))
sort("sort with arguments swapped", numbers, "f32", compared("LT", "%b", "%a", "FLOAT"))
sort("sort swapped twice", numbers, "f32", compared("GT", "%b", "%a", "FLOAT"))
sort("sort in total order", f"[0x7FC00000, 1.0, 0.0, -0.0, 0xFF800000, 0xFFC00000]", "f32", compared("LT", kind="TOTALORDER"))
sort("sort descending in total order", f"[0x7FC00000, 1.0, 0.0, -0.0, 0xFF800000, 0xFFC00000]", "f32",
     compared("GT", kind="TOTALORDER"))
magnitudes = "%d = stablehlo.abs %a : SCALAR\n%e = stablehlo.abs %b : SCALAR\n"
sort("sort by magnitude", numbers, "f32", magnitudes + compared("LT", "%d", "%e", "FLOAT"))
chosen = """%two = stablehlo.constant dense<2.0> : SCALAR
%p = stablehlo.compare GE, %a, %two, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%q = stablehlo.compare GE, %b, %two, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%n = stablehlo.negate %a : SCALAR
%m = stablehlo.negate %b : SCALAR
%d = stablehlo.select %p, %n, %a : tensor<i1>, SCALAR
%e = stablehlo.select %q, %m, %b : tensor<i1>, SCALAR
"""
sort("sort by a select", numbers, "f32", chosen + compared("LT", "%d", "%e", "FLOAT"))
sort("sort integers descending", "[3, -1, 2, 0, 0, -4]", "i32", compared("GT"))
sort("sort unsigned descending", "[3, 255, 2, 0, 0, 4]", "ui8", compared("GT", kind="UNSIGNED"))
sort("sort i1", "[true, false, true, false, false, true]", "i1", compared("LT", kind="UNSIGNED"))
tie = """%l = stablehlo.compare LT, %a, %b, SIGNED : (SCALAR, SCALAR) -> tensor<i1>
%q = stablehlo.compare EQ, %a, %b, SIGNED : (SCALAR, SCALAR) -> tensor<i1>
%g = stablehlo.compare GT, %i0, %i1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
"""
few = "[1, 0, 1, 2, 0, 1]"
sort("sort by two keys, one descending", few, "i32", tie + "%t = stablehlo.and %q, %g : tensor<i1>\n%c = stablehlo.or %l, %t : tensor<i1>")
sort("sort by two keys, written otherwise", few, "i32", tie + "%t = stablehlo.and %g, %q : tensor<i1>\n%c = stablehlo.or %t, %l : tensor<i1>")
sort("sort by two keys, a select", few, "i32", tie + "%c = stablehlo.select %q, %g, %l : tensor<i1>, tensor<i1>")


# ---- reductions
def arg(name, values, element, region, start, place="0", count=6):
    scalar = f"tensor<{element}>"
    case(name, constant("x", values, f"{count}x{element}") + constant("v", start, element) + constant("p", place, "i32") +
         f'''%i = stablehlo.iota dim = 0 : tensor<{count}xi32>
%0:2 = "stablehlo.reduce"(%x, %i, %v, %p) <{{dimensions = array<i64: 0>}}> ({{
^bb0(%a: {scalar}, %i0: tensor<i32>, %b: {scalar}, %i1: tensor<i32>):
{region.replace("SCALAR", scalar)}
}}) : (tensor<{count}x{element}>, tensor<{count}xi32>, {scalar}, tensor<i32>) -> ({scalar}, tensor<i32>)
%0#0, %0#1''', element, "i32")


def extremum(direction, order, unequal="NE", tie="and"):
    return f"""%2 = stablehlo.compare {direction}, %a, %b, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%3 = stablehlo.compare {unequal}, %a, %a, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%4 = stablehlo.or %2, %3 : tensor<i1>
%5 = stablehlo.compare EQ, %a, %b, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%6 = stablehlo.compare {order}, %i0, %i1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
%7 = stablehlo.{tie} %5, %6 : tensor<i1>
%8 = stablehlo.or %4, %7 : tensor<i1>
%9 = stablehlo.select %4, %a, %b : tensor<i1>, SCALAR
%10 = stablehlo.select %8, %i0, %i1 : tensor<i1>, tensor<i32>
stablehlo.return %9, %10 : SCALAR, tensor<i32>"""


peaks = "[1.0, 5.0, 2.0, 5.0, 1.0, 4.0]"
arg("argmax", peaks, "f32", extremum("GT", "LT"), "0xFF800000")
arg("argmin", peaks, "f32", extremum("LT", "LT"), "0x7F800000")
arg("argmax, the last", peaks, "f32", extremum("GT", "GT"), "0xFF800000", "-1")
arg("argmax, an initial value that counts", peaks, "f32", extremum("GT", "LT"), "9.0", "77")
arg("argmax, an initial value that ties", peaks, "f32", extremum("GT", "LT"), "5.0", "77")
arg("argmax, an initial place that wins", peaks, "f32", extremum("GT", "LT"), "5.0", "-7")
arg("argmax of NaN", "[1.0, 0x7FC00000, 2.0, 0x7FC00000, 9.0, 4.0]", "f32", extremum("GT", "LT"), "0xFF800000")
first = """%2 = stablehlo.compare GE, %a, %b, FLOAT : (SCALAR, SCALAR) -> tensor<i1>
%9 = stablehlo.select %2, %a, %b : tensor<i1>, SCALAR
%10 = stablehlo.select %2, %i0, %i1 : tensor<i1>, tensor<i32>
stablehlo.return %9, %10 : SCALAR, tensor<i32>"""
arg("argmax by the order of elements", "[3.0, 5.0, 5.0, 3.0, 1.0, 5.0]", "f32", first, "0xFF800000", "-1")


def reduce(name, values, type, result, element, region, start, dims="0"):
    scalar = f"tensor<{element}>"
    case(name, constant("x", values, f"{type}x{element}") + constant("v", start, element) +
         f'''%0 = "stablehlo.reduce"(%x, %v) <{{dimensions = array<i64: {dims}>}}> ({{
^bb0(%a: {scalar}, %b: {scalar}):
{region.replace("SCALAR", scalar)}
stablehlo.return %c : {scalar}
}}) : (tensor<{type}x{element}>, {scalar}) -> tensor<{result}{element}>
%0''', f"{result}{element}")


truth = "[[true, false, true], [false, false, true]]"
for op, start in [("add", "false"), ("multiply", "true"), ("maximum", "false"), ("minimum", "true"), ("xor", "false")]:
    reduce(f"reduce i1 by {op}", truth, "2x3", "3x", "i1", f"%c = stablehlo.{op} %a, %b : SCALAR", start)
    if op != "xor":
        case(f"{op} of i1", constant("x", truth, "2x3xi1") + constant("y", "[[true, true, false], [false, true, true]]", "2x3xi1") +
             f"%0 = stablehlo.{op} %x, %y : tensor<2x3xi1>\n%0", "2x3xi1")
# Associative and not commutative.
reduce("reduce to the last", "[[1, 2, 3], [4, 5, 6]]", "2x3", "2x", "i32",
       "%z = stablehlo.constant dense<0> : SCALAR\n%q = stablehlo.compare NE, %b, %z, SIGNED : (SCALAR, SCALAR) -> tensor<i1>\n"
       "%c = stablehlo.select %q, %b, %a : tensor<i1>, SCALAR", "0", "1")
reduce("reduce to the first", "[[0, 2, 3], [4, 5, 0], [7, 8, 9]]", "3x3", "", "i32",
       "%z = stablehlo.constant dense<0> : SCALAR\n%q = stablehlo.compare NE, %a, %z, SIGNED : (SCALAR, SCALAR) -> tensor<i1>\n"
       "%c = stablehlo.select %q, %a, %b : tensor<i1>, SCALAR", "0", "0, 1")
case("reduce over windows to the last", constant("x", "[1, 2, 3, 4, 5]", "5xi32") + constant("z", "0", "i32") + '''%0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
^bb0(%a: tensor<i32>, %b: tensor<i32>):
%w = stablehlo.constant dense<0> : tensor<i32>
%q = stablehlo.compare NE, %b, %w, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
%c = stablehlo.select %q, %b, %a : tensor<i1>, tensor<i32>
stablehlo.return %c : tensor<i32>
}) : (tensor<5xi32>, tensor<i32>) -> tensor<5xi32>
%0''', "5xi32")
case("attributes of old texts", constant("x", "[[1, 2, 3], [4, 5, 6]]", "2x3xi32") + constant("z", "0", "i32") + '''%0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>}> ({
^bb0(%a: tensor<i32>, %b: tensor<i32>):
%c = stablehlo.add %a, %b : tensor<i32>
stablehlo.return %c : tensor<i32>
}) : (tensor<2x3xi32>, tensor<i32>) -> tensor<1x2xi32>
%0''', "1x2xi32")
logs = """%m = stablehlo.maximum %a, %b : tensor<f32>
%s = stablehlo.subtract %a, %b : tensor<f32>
%n = stablehlo.compare NE, %s, %s, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
%t = stablehlo.add %a, %b : tensor<f32>
%u = stablehlo.abs %s : tensor<f32>
%v = stablehlo.negate %u : tensor<f32>
%e = stablehlo.exponential %v : tensor<f32>
%l = stablehlo.log_plus_one %e : tensor<f32>
%j = stablehlo.add %m, %l : tensor<f32>
%c = stablehlo.select %n, %t, %j : tensor<i1>, tensor<f32>"""


def cumulative(name, region, start):
    case(name, constant("x", "[1.0, 2.0, 3.0]", "3xf32") + constant("z", start, "f32") + f'''%0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}}> ({{
^bb0(%a: tensor<f32>, %b: tensor<f32>):
{region}
stablehlo.return %c : tensor<f32>
}}) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
%0''', "3xf32")


cumulative("cumulative logarithms", logs, "0xFF800000")
cumulative("cumulative logarithms, other operands", logs.replace("%v = stablehlo.negate %u", "%v = stablehlo.negate %t"), "0xFF800000")

# ---- ops
case("power of integers", constant("x", "[2, -1, -1, 1, 0, 3, 0, -3, 2]", "9xi32") +
     constant("y", "[-1, -3, -2, -5, -1, 3, 0, 5, 40]", "9xi32") + "%0 = stablehlo.power %x, %y : tensor<9xi32>\n%0", "9xi32")
case("power of unsigned integers", constant("x", "[2, 3, 0]", "3xui8") + constant("y", "[5, 100, 0]", "3xui8") +
     "%0 = stablehlo.power %x, %y : tensor<3xui8>\n%0", "3xui8")
case("map", constant("x", "[1, 2, 3]", "3xi32") + constant("y", "[4, 5, 6]", "3xi32") + '''%0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0>}> ({
^bb0(%a: tensor<i32>, %b: tensor<i32>):
%c = stablehlo.multiply %a, %b : tensor<i32>
%d = stablehlo.subtract %c, %a : tensor<i32>
stablehlo.return %d : tensor<i32>
}) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
%0''', "3xi32")
matrix = constant("x", "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]", "3x2xf32")
case("dot of vectors", constant("x", "[1.0, 2.0]", "2xf32") + "%0 = stablehlo.dot %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>\n%0", "f32")
case("dot of a matrix and a vector", matrix + constant("y", "[7.0, 8.0]", "2xf32") +
     "%0 = stablehlo.dot %x, %y : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>\n%0", "3xf32")
case("dot of matrices", matrix + constant("y", "[[7.0], [8.0]]", "2x1xf32") +
     "%0 = stablehlo.dot %x, %y : (tensor<3x2xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>\n%0", "3x1xf32")
case("broadcast", constant("x", "[1, 2]", "2xi32") +
     "%0 = stablehlo.broadcast %x, sizes = [2, 1] : (tensor<2xi32>) -> tensor<2x1x2xi32>\n%0", "2x1x2xi32")
channels = "".join(constant(n, v, "2xf32") for n, v in
                   [("g", "[2.0, 3.0]"), ("o", "[1.0, -1.0]"), ("m", "[1.0, 4.0]"), ("v", "[3.0, 15.0]")])
case("batch_norm_inference", matrix + channels + '''%0 = "stablehlo.batch_norm_inference"(%x, %g, %o, %m, %v) <{epsilon = 1.0 : f32, feature_index = 1 : i64}> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
%0''', "3x2xf32")
case("top_k of i1", constant("x", "[false, true, false, true]", "4xi1") +
     "%0, %1 = chlo.top_k(%x, k = 3) : tensor<4xi1> -> (tensor<3xi1>, tensor<3xi32>)\n%0, %1", "3xi1", "3xi32")
case("tan", constant("x", "[0.5, -1.0]", "2xf64") + "%0 = chlo.tan %x : tensor<2xf64> -> tensor<2xf64>\n%0", "2xf64")
case("attributes of frontends", '%0 = stablehlo.iota dim = 1 {mhlo.frontend_attributes = {dim = "0", iota_dimension = "0"}} : tensor<2x3xi32>\n%0',
     "2x3xi32")
case("attributes of frontends, generic", constant("x", "[[1, 2], [3, 4]]", "2x2xi32") + '''%0 = "stablehlo.concatenate"(%x, %x) <{dimension = 1 : i64}> {frontend_attributes = {dim = "0", dimension = "0"}} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x4xi32>
%0''', "2x4xi32")
raw = ("#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2], "
       "kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2], "
       "output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2]>")
case("convolution with raw dimension numbers", constant("x", "[[[1.0, 2.0, 3.0]]]", "1x1x3xf32") +
     constant("k", "[[[10.0, 1.0]], [[0.0, 2.0]]]", "2x1x2xf32") + f'''%0 = "stablehlo.convolution"(%x, %k) <{{batch_group_count = 1 : i64, dimension_numbers = {raw}, feature_group_count = 1 : i64}}> : (tensor<1x1x3xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2xf32>
%0''', "1x2x2xf32")
for algorithm in ["DEFAULT", "THREE_FRY", "PHILOX"]:
    for element, shape in [("ui32", 5), ("ui64", 3), ("ui8", 5), ("ui16", 3), ("ui32", "3x2"), ("ui32", "2x3"),
                           ("ui32", "3x5"), ("ui32", "5x3"), ("ui64", "3x2"), ("ui32", "3x4x2"), ("ui32", "")]:
        for state in [2] if algorithm == "THREE_FRY" else [2, 3]:
            type = f"{shape}x{element}" if shape != "" else element
            if algorithm == "PHILOX" or state == 2:
                case(f"rng_bit_generator {algorithm} {type} of {state}",
                     constant("s", str([7, 18446744073709551615, 5][:state]), f"{state}xui64") +
                     f"""%0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{state}xui64>) -> (tensor<{state}xui64>, tensor<{type}>)
%0, %1""", f"{state}xui64", type)
CASES.append(("a mesh of one device", '''module { sdy.mesh @mesh = <["x"=1]> {stablehlo.mesh = {axes = [{name = "x", size = 1 : i64}]}}
func.func public @main() -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
%x = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
%0 = sdy.sharding_constraint %x <@mesh, [{"x", ?}]> : tensor<4xf32>
%1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
%c = stablehlo.add %a, %b : tensor<f32>
stablehlo.return %c : tensor<f32>
}) : (tensor<4xf32>) -> tensor<4xf32>
return %1 : tensor<4xf32>
} }'''))


def values_of(array):
    return " ".join(repr(x.item()) if array.dtype.kind == "f" else str(int(x)) for x in array.reshape(-1))


def main():
    with open(os.path.join(FOLDER, "stablehlo_cases.txt"), "w") as file:
        for name, text in CASES:
            try:
                results = run(text, [])
            except Exception as error:
                print(name, "FAILS:", str(error)[:300])
                continue
            file.write(f"=== {name}\n" + "".join(f"--- {values_of(x)}\n" for x in results) + text + "\n")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    main()
