#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>
#include <lockstep/scientific.h>

#include "engine/exchange/zip_writer.h"
#include "tests/fuzz/mutations.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::expect_error;

TEST_CASE("a trained model goes to one file and comes back") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "mlp.function";
  const Model model([](const Scope& scope, const Array& x) {
    return dense(scope["head"], relu(dense(scope["hidden"], x, {.units = 8})), {.units = 3});
  });
  const Array x = reshape(arange(10, float32), {2, 5}) / 10.0f;
  const auto [trainable, state] = model.init(random::key(3), x);
  const auto predict = [&, trainable = trainable, state = state](const Array& rows) {
    return softmax(model.stateless_call(trainable, state, rows, false).first);
  };
  exchange::export_function(file, predict, x);
  const exchange::ExportedFunction loaded = exchange::load_function(file);
  const auto traced = trace_function(predict, x);
  CHECK(loaded.program().to_string() == traced.to_string());
  CHECK(loaded.program().hash() == traced.hash());
  CHECK(loaded.constants().size() == 4);
  CHECK(loaded.input_types() == std::vector<ArrayType>{x.type()});
  CHECK(loaded.output_types() == std::vector<ArrayType>{{float32, {2, 3}, {}}});
  CHECK(loaded.written_by() == version());
  CHECK(loaded(x).to_bytes() == jit(predict)(x).to_bytes());
}

TEST_CASE("arguments and results keep their structure") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "f.function";
  using Pair = std::map<std::string, Array>;
  const auto f = [](const std::vector<Array>& xs, const Pair& named) {
    return std::pair(Pair{{"sum", xs[0] + xs[1]}}, named.at("a") * 2.0f);
  };
  const std::vector<Array> xs = {array(1.0f), array(2.0f)};
  const Pair named = {{"a", array(3.0f)}};
  exchange::export_function(file, f, xs, named);
  const auto loaded = exchange::load_function(file);
  const auto [sum, twice] = loaded.operator()<std::pair<Pair, Array>>(xs, named);
  CHECK(sum.at("sum").item<float>() == 3.0f);
  CHECK(twice.item<float>() == 6.0f);
  // Structures: leaves are the numbers of their types.
  const std::vector<Tree> structures = loaded.argument_structures();
  REQUIRE(structures.size() == 2);
  CHECK(structures[0].at("1").array().item<std::int32_t>() == 1);
  CHECK(structures[1].at("a").array().item<std::int32_t>() == 2);
  CHECK(loaded.input_types().size() == 3);
  CHECK(loaded.result_structure().at("0/sum").array().item<std::int32_t>() == 0);
  CHECK(loaded.result_structure().at("1").array().item<std::int32_t>() == 1);
  expect_error<StateError>([&] { loaded(xs); }, "takes 2 arguments, 1 are given");
  expect_error<StateError>([&] { loaded(xs, array(1.0f)); }, "argument 1 of the function of",
                           R"(has the structure "leaf"; expected {"dict":{"a":"leaf"}})");
  expect_error<ShapeError>([&] { loaded.operator()<Tree>(xs, Pair{{"a", array({3.0f})}}); }, "argument 2 is f32[1]");
}

TEST_CASE("captured keys, complex and narrow arrays come back") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "f.function";
  const Array x = reshape(arange(6, float32), {2, 3}), key = random::key(7), keys = random::split(key, 2);
  const Array c = complex(x, x - 1.0f), wide = complex(x.astype(float64), 1.0), none = zeros({0}, complex64);
  const Array narrow = x.astype(bfloat16), words = array<std::uint32_t>({1, 2});
  const auto f = [=](const Array& y) {
    const auto draw = [](const Array& k) { return random::normal(k, {3}); };
    return std::tuple(y * random::uniform(key, {2, 3}) + vmap(draw)(keys), y * c, y * wide, none,
                      y.astype(bfloat16) * narrow, words + convert(y[0][0], uint32));
  };
  exchange::export_function(file, f, x);
  const auto loaded = exchange::load_function(file);
  CHECK(fingerprint(loaded.call({Tree(x)})) == fingerprint(to_tree(f(x))));
  CHECK(std::ranges::count(loaded.constants(), DType::key, &Array::dtype) == 2);
}

TEST_CASE("equations that are solved come back from a file, and from StableHLO without their derivatives") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "f.function";
  const Array x = array<double>({0.5, -1, 2});
  const auto f = [](const Array& v) {
    const Array root = newton([&](const Array& z) { return z * z * z + z - v; }, zeros_like(v));
    return root + cg([&](const Array& z) { return z * (2.0 + sin(v)); }, cos(v), {.tol = 1e-13});
  };
  exchange::export_function(file, f, x);
  const auto loaded = exchange::load_function(file);
  CHECK(loaded(x).to_bytes() == f(x).to_bytes());
  const auto sum_of = [](const auto& g) { return [g](const Array& v) { return sum(g(v)); }; };
  const auto again = [&](const Array& v) -> Array { return loaded(v); };
  CHECK(allclose(grad(sum_of(again))(x), grad(sum_of(f))(x), 1e-12, 1e-12).item<bool>());
  const Function traced = trace_function(f, x);
  CHECK(parse_function(traced.to_string()).to_string() == traced.to_string());
  const Function read = exchange::from_stablehlo(exchange::to_stablehlo(traced));
  CHECK(allclose(read({x})[0], f(x), 1e-12, 1e-12).item<bool>());
  // A text may say what is no equation.
  const std::string body = "{ lambda a:f64[3] b:f64[3]. in (b,) }", other = "{ lambda a:f64[3] b:f64[2]. in (b,) }";
  const auto solve = [&](const std::string& matvec, const std::string& consts) {
    return "{ lambda a:f64[3] b:f64[3]. let c:f64[3] = linear_solve[body=" + body + " consts=" + consts +
           " matvec=" + matvec + "] a b in (c,) }";
  };
  CHECK(parse_function(solve(body, "1"))({x, x * 2.0})[0].to_bytes() == (x * 2.0).to_bytes());
  expect_error<IrError>([&] { parse_function(solve(other, "1")); }, "linear_solve given a matvec of other types",
                        "expected one of 1 constants and 1 vectors for each result");
  expect_error<IrError>([&] { parse_function(solve(body, "2")); }, "linear_solve given consts=2 with 2 operands",
                        "instead give constants and then vectors");
}

TEST_CASE("files that are none, damaged or newer") {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "f.function";
  exchange::export_function(
      file, [w = array({1.0f, 2.0f})](const Array& x) { return x * w; }, array({0.0f, 1.0f}));
  const std::string good = tests::file_text(file);
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    CAPTURE(seed);
    try {
      exchange::load_function(folder.write("damaged", tests::mutated(good, seed)));
    } catch (const Error&) {
    }
  }

  const std::string program = "{ lambda a:f32[2] b:f32[2].\n  let c:f32[2] = mul a b\n  in (c,) }";
  const std::string constants =
      R"({"000000":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )" + std::string(8, '\0');
  const auto written = [&](const std::string& manifest, const std::string& text) {
    exchange::ZipWriter zip("test", "test");
    zip.add("manifest.json", manifest);
    zip.add("program.txt", text);
    std::string stored(8, '\0');
    stored[0] = static_cast<char>(constants.size() - 8);
    zip.add("constants.safetensors", stored + constants);
    const auto bytes = std::move(zip).finish();
    return folder.write("made", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  const auto manifest = [](const std::string& version, const std::string& argument, const std::string& result) {
    return R"({"format":"lockstep.function","version":)" + version + R"(,"lockstep":"0","arguments":[)" + argument +
           R"(],"result":)" + result + "}";
  };
  const std::string leaf = R"("\"leaf\"")";
  const auto refuse = [&](const std::string& text, const std::string& code, const auto&... parts) {
    expect_error<DataError>([&] { exchange::load_function(written(text, code)); }, "[load_function]", parts...);
  };
  CHECK(exchange::load_function(written(manifest("1", leaf, leaf), program))(array({3.0f, 4.0f})).size() == 2);
  refuse(manifest("2", leaf, leaf), program, "it is of version 2 of the format; this library reads version 1");
  refuse("{}", program, "manifest.json is not of the format 'lockstep.function'");
  refuse(manifest("1", "1", leaf), program, "manifest.json has no arguments, result and lockstep");
  refuse(manifest("1", "", leaf), program, "the program takes 2 arrays; 0 of arguments and 1 constants are given");
  refuse(manifest("1", leaf, R"("null")"), program, "the program gives 1 arrays, the result has another number");
  refuse(manifest("1", R"("{\"tuple\":1}")", leaf), program,
         "a structure of trees in manifest.json holds the kind 'tuple'");
  refuse(manifest("1", leaf, leaf), "{ lambda a:f32[2] b:f32[3].\n  in (a,) }",
         "constant 0 is f32[2], the program takes f32[3]");
  expect_error<IrError>([&] { exchange::load_function(written(manifest("1", leaf, leaf), "nonsense")); }, "line 1");
  exchange::save_npz(folder.path() / "w.npz", {{"x", array(1.0f)}});
  expect_error<DataError>([&] { exchange::load_function(folder.path() / "w.npz"); },
                          "no manifest.json in it; expected what export_function writes");
}
