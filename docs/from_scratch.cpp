// Lockstep's idea, from nothing but the standard library: types, trace, jvp, transpose, grad, vmap, jit and pmap.
// Read it from the top. Each part is the small brother of a folder of engine/.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// ---- types (engine/core) -------------------------------------------------------------------------------------------
// An array's type says its shape, and whether replicas may hold different values: `varying`.

using Data = std::vector<double>;
using Shape = std::vector<int>;
struct Type {
  Shape shape;
  bool varying = false;
  auto operator<=>(const Type&) const = default;
};
using Types = std::vector<Type>;

/// f of each, as a vector.
template <class Range, class F>
auto mapped(const Range& range, F f) {
  std::vector<std::decay_t<decltype(std::invoke(f, range[0]))>> results;
  for (const auto& x : range) results.push_back(std::invoke(f, x));
  return results;
}
template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
int size(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()); }

// An Array is a handle: of data, or of a var of the trace that is open. Without either it stands for zero, a tangent that
// does not flow, or for what is not known.
struct Builder;
struct Array {
  Type type;
  std::shared_ptr<const Data> data;
  Builder* builder = nullptr;
  int var = -1;
  explicit operator bool() const { return data != nullptr || builder != nullptr; }
};
using Arrays = std::vector<Array>;

bool exists(const Array& x) { return static_cast<bool>(x); }
Array array(Shape shape, Data data) { return {{std::move(shape)}, std::make_shared<const Data>(std::move(data))}; }
Types types_of(const Arrays& xs) { return mapped(xs, &Array::type); }

// ---- programs (engine/ir) ------------------------------------------------------------------------------------------
// A function is a list of equations, each with one result. Vars are indices into the list of types.

struct Op;
using Vars = std::vector<int>;
struct Attr {
  int axis = 0, extent = 0;
  double value = 0;
  Shape shape = {};
};
struct Equation {
  const Op* op;
  Attr attr;
  Vars in;
  int out;
};
struct Function {
  Types types;
  Vars inputs, outputs;
  std::vector<Equation> equations;
  Arrays captured;  // what the last inputs are
};

template <class T>
std::vector<T> at(const std::vector<T>& values, const Vars& vars) {
  return mapped(vars, [&](int v) { return values[v]; });
}
/// A place for the value of each var; those of the inputs, as far as there are arguments, are filled.
Arrays values(const Function& f, const Arrays& arguments) {
  Arrays value(f.types.size());
  for (size_t i = 0; i < arguments.size(); ++i) value[f.inputs[i]] = arguments[i];
  return value;
}

// All facts of an op stand in one place: type, kernel, derivative, transpose, batching. Rules are formulas in ops, so what
// they emit can be transformed again.
using Operands = std::vector<const double*>;
struct Op {
  const char* name;
  std::function<Type(const Types&, const Attr&)> infer;
  std::function<void(Data& out, const Operands&, const Types&, const Attr&)> run;
  /// Cotangents of the operands from the result's; `known` has the operands that are not transposed.
  std::function<Arrays(const Array& ct, const Attr&, const Arrays& known, const Types&)> transpose = nullptr;
  /// Absent: the op is linear, so its tangent is the op itself on the operand's tangent.
  std::function<Array(const Arrays& x, const Arrays& dx)> jvp = nullptr;
  /// The attributes for operands that all have a new axis 0.
  std::function<Attr(Attr)> batch = std::identity();
};

// ---- the tracer (engine/trace) -------------------------------------------------------------------------------------
// While a trace is open every op is staged. Values of outside that it uses become inputs too: `captured`.

thread_local std::vector<Builder*> open_traces;  // the one ambient thing

/// Open as long as it lives.
struct Builder {
  Function f;
  std::map<std::tuple<Builder*, int, const Data*>, int> lifted;
  std::map<int, Array> pvaried;  // one pvary a value, however often it is used

  Builder() { open_traces.push_back(this); }
  ~Builder() { open_traces.pop_back(); }

  Array add(const Type& type) {
    f.types.push_back(type);
    return {type, nullptr, this, static_cast<int>(f.types.size()) - 1};
  }
  Array input(const Type& type) {
    f.inputs.push_back(static_cast<int>(f.types.size()));
    return add(type);
  }
  int lift(const Array& x) {
    if (x.builder == this) return x.var;
    const auto [place, is_new] = lifted.try_emplace({x.builder, x.var, x.data.get()});
    if (is_new) {
      place->second = input(x.type).var;
      f.captured.push_back(x);
    }
    return place->second;
  }
};

Array pvary(const Array& x);

Array bind(const Op& op, Arrays xs, Attr attr = {}) {
  const bool any_varying = std::ranges::any_of(xs, [](const Array& x) { return x.type.varying; });
  if (any_varying) xs = mapped(xs, pvary);  // one operand that varies makes all vary
  const Types types = types_of(xs);
  const Type result = op.infer(types, attr);
  if (open_traces.empty()) {
    Data out(size(result.shape));
    op.run(out, mapped(xs, [](const Array& x) { return x.data->data(); }), types, attr);
    return array(result.shape, std::move(out));
  }
  Builder& b = *open_traces.back();
  const Vars in = mapped(xs, [&](const Array& x) { return b.lift(x); });
  const Array out = b.add(result);
  b.f.equations.push_back({&op, attr, in, out.var});
  return out;
}

using Body = std::function<Arrays(const Arrays&)>;
Function trace(const Body& body, const Types& types) {
  Builder b;
  const Arrays results = body(mapped(types, [&](const Type& type) { return b.input(type); }));
  b.f.outputs = mapped(results, [&](const Array& y) { return b.lift(y); });
  return b.f;
}

/// The function on arguments, equation by equation: staged where a trace is open, computed where none is.
Arrays call(const Function& f, const Arrays& arguments) {
  Arrays value = values(f, arguments);
  for (const Equation& e : f.equations) value[e.out] = bind(*e.op, at(value, e.in), e.attr);
  return at(value, f.outputs);
}

// ---- ops (engine/ops) ----------------------------------------------------------------------------------------------

extern const Op full_op, add_op, mul_op, neg_op, sin_op, cos_op, broadcast_op, sum_op, pvary_op, psum_op;

Array constant(Shape shape, double value) { return bind(full_op, {}, {0, 0, value, std::move(shape)}); }
Array operator+(const Array& a, const Array& b) { return bind(add_op, {a, b}); }
Array operator*(const Array& a, const Array& b) { return bind(mul_op, {a, b}); }
Array operator-(const Array& x) { return bind(neg_op, {x}); }
Array operator-(const Array& a, const Array& b) { return a + -b; }
Array sin(const Array& x) { return bind(sin_op, {x}); }
Array cos(const Array& x) { return bind(cos_op, {x}); }
Array broadcast(const Array& x, int axis, int extent) { return bind(broadcast_op, {x}, {axis, extent}); }
Array sum(const Array& x, int axis) { return bind(sum_op, {x}, {axis}); }
Array psum(const Array& x) { return bind(psum_op, {x}); }
Array pvary(const Array& x) {
  if (open_traces.empty()) throw std::invalid_argument("pvary has a meaning inside a map only");
  if (x.type.varying) return x;
  Builder& b = *open_traces.back();
  Array& once = b.pvaried[b.lift(x)];
  return once ? once : once = bind(pvary_op, {x});
}

Array plus(const Array& a, const Array& b) { return !a ? b : !b ? a : a + b; }
Array times(const Array& a, const Array& b) { return a && b ? a * b : Array(); }

Type same(const Types& in, const Attr&) {
  if (in[0].shape != in.back().shape) throw std::invalid_argument("shapes differ; broadcast one of them");
  return in[0];
}
/// Element by element; of one operand, f gets its element twice.
template <class F>
auto each(F f) {
  return [f](Data& out, const Operands& in, auto&&...) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = f(in.front()[i], in.back()[i]);
  };
}
// Row-major: an axis cuts an array into blocks of `extent` rows of `inner` elements.
int inner(const Shape& s, int axis) { return size(Shape(s.begin() + axis, s.end())); }
Type inserted(Type t, const Attr& a) { return t.shape.insert(t.shape.begin() + a.axis, a.extent), t; }
Type erased(Type t, const Attr& a) { return t.shape.erase(t.shape.begin() + a.axis), t; }
Type varying(Type t, bool is) { return t.varying = is, t; }
Attr next_axis(Attr a) { return ++a.axis, a; }

const Op full_op{"full", [](const Types&, const Attr& a) { return Type{a.shape}; },
                 [](Data& out, const Operands&, const Types&, const Attr& a) { std::ranges::fill(out, a.value); }};
const Op add_op{"add", same, each(std::plus<>()), [](const Array& ct, auto&&...) { return Arrays(2, ct); },
                [](const Arrays&, const Arrays& dx) { return plus(dx[0], dx[1]); }};
const Op mul_op{"mul", same, each(std::multiplies<>()),
                [](const Array& ct, const Attr&, const Arrays& known, const Types&) {
                  return Arrays{times(ct, known[1]), times(known[0], ct)};
                },
                [](const Arrays& x, const Arrays& dx) { return plus(times(dx[0], x[1]), times(x[0], dx[1])); }};
const Op neg_op{"neg", same, each([](double x, double) { return -x; }),
                [](const Array& ct, auto&&...) { return Arrays{-ct}; }};
const Op sin_op{"sin", same, each([](double x, double) { return std::sin(x); }), nullptr,
                [](const Arrays& x, const Arrays& dx) { return dx[0] * cos(x[0]); }};
const Op cos_op{"cos", same, each([](double x, double) { return std::cos(x); }), nullptr,
                [](const Arrays& x, const Arrays& dx) { return -(dx[0] * sin(x[0])); }};
const Op broadcast_op{"broadcast",
                      [](const Types& in, const Attr& a) { return inserted(in[0], a); },
                      [](Data& out, const Operands& in, const Types& types, const Attr& a) {
                        const int n = inner(types[0].shape, a.axis), block = n * a.extent;
                        for (int i = 0; i < static_cast<int>(out.size()); ++i) out[i] = in[0][i / block * n + i % n];
                      },
                      [](const Array& ct, const Attr& a, auto&&...) { return Arrays{sum(ct, a.axis)}; },
                      nullptr,
                      next_axis};
const Op sum_op{"sum",
                [](const Types& in, const Attr& a) { return erased(in[0], a); },
                [](Data& out, const Operands& in, const Types& types, const Attr& a) {
                  const int n = inner(types[0].shape, a.axis + 1), block = inner(types[0].shape, a.axis);
                  for (int i = 0; i < size(types[0].shape); ++i) out[i / block * n + i % n] += in[0][i];
                },
                [](const Array& ct, const Attr& a, const Arrays&, const Types& in) {
                  return Arrays{broadcast(ct, a.axis, in[0].shape[a.axis])};
                },
                nullptr,
                next_axis};

// pvary and psum are each other's transposes. That is why a weight that enters a map invariant, and is made varying once,
// has a gradient that is summed over the replicas exactly once.
const Op pvary_op{"pvary", [](const Types& in, const Attr&) { return varying(in[0], true); },
                  each([](double x, double) { return x; }),
                  [](const Array& ct, auto&&...) { return Arrays{psum(ct)}; }};
const Op psum_op{"psum",
                 [](const Types& in, const Attr&) {
                   if (!in[0].varying) throw std::invalid_argument("psum of an invariant value: it is summed already");
                   return varying(in[0], false);
                 },
                 nullptr,  // needs all replicas: see `run`
                 [](const Array& ct, auto&&...) { return Arrays{pvary(ct)}; }};

// ---- transforms (engine/transform) ---------------------------------------------------------------------------------
// Each takes a Function and traces a new one: no flag on an array, no tracer inside a tracer's value.

Array or_zero(const Array& x, const Type& type) { return x ? x : constant(type.shape, 0); }

/// (x..., dx...) -> (y..., dy...)
Function jvp(const Function& f) {
  const Types types = at(f.types, f.inputs);
  const Body body = [&](const Arrays& in) {
    const auto middle = in.begin() + static_cast<std::ptrdiff_t>(types.size());
    Arrays x = values(f, {in.begin(), middle});
    Arrays dx = values(f, {middle, in.end()});
    for (const Equation& e : f.equations) {
      const Arrays xs = at(x, e.in), dxs = at(dx, e.in);
      x[e.out] = bind(*e.op, xs, e.attr);
      if (std::ranges::none_of(dxs, exists)) continue;
      dx[e.out] = e.op->jvp ? e.op->jvp(xs, dxs) : bind(*e.op, dxs, e.attr);
    }
    for (int v : f.outputs) dx[v] = or_zero(dx[v], f.types[v]);
    return joined(at(x, f.outputs), at(dx, f.outputs));
  };
  return trace(body, joined(types, types));
}

/// (x...) -> (y, gradient of y with respect to each x): of the jvp, what does not depend on dx runs forwards, the rest,
/// which is linear, backwards.
Function value_and_grad(const Function& f) {
  const Function both = jvp(f);
  const Body body = [&](const Arrays& in) {
    Arrays value = values(both, in);  // there is none for what depends on dx
    for (const Equation& e : both.equations) {
      const Arrays xs = at(value, e.in);
      if (std::ranges::all_of(xs, exists)) value[e.out] = bind(*e.op, xs, e.attr);
    }
    Arrays ct(both.types.size());
    ct[both.outputs[1]] = constant({}, 1);
    for (const Equation& e : both.equations | std::views::reverse) {
      if (value[e.out] || !ct[e.out]) continue;
      const Arrays back = e.op->transpose(ct[e.out], e.attr, at(value, e.in), at(both.types, e.in));
      for (size_t i = 0; i < back.size(); ++i) {
        if (!value[e.in[i]]) ct[e.in[i]] = plus(ct[e.in[i]], back[i]);
      }
    }
    Arrays out{value[both.outputs[0]]};
    for (int dx : both.inputs | std::views::drop(in.size())) out.push_back(or_zero(ct[dx], both.types[dx]));
    return out;
  };
  return trace(body, at(f.types, f.inputs));
}

/// Inputs whose type in `types` has another axis, axis 0, are batched; all outputs are.
Function vmap(const Function& f, const Types& types, int extent) {
  const Body body = [&](const Arrays& in) {
    Arrays x = values(f, in);
    const auto is_batched = [&](int v) { return x[v].type.shape != f.types[v].shape; };
    const auto batched = [&](const Vars& vars) {
      return mapped(vars, [&](int v) { return is_batched(v) ? x[v] : broadcast(x[v], 0, extent); });
    };
    for (const Equation& e : f.equations) {
      x[e.out] = std::ranges::any_of(e.in, is_batched) ? bind(*e.op, batched(e.in), e.op->batch(e.attr))
                                                       : bind(*e.op, at(x, e.in), e.attr);
    }
    return batched(f.outputs);
  };
  return trace(body, types);
}

/// body(xs) and its gradients with respect to xs (behind them, those of captured arrays).
Arrays value_and_grad(const Body& body, const Arrays& xs) {
  const Function f = trace(body, types_of(xs));
  return call(value_and_grad(f), joined(xs, f.captured));
}
/// body over axis 0 of all xs at once; what it captures is the same for all.
Arrays vmap(const Body& body, const Arrays& xs) {
  const Function f = trace(body, mapped(xs, [](const Array& x) { return erased(x.type, {0}); }));
  const Arrays arguments = joined(xs, f.captured);
  return call(vmap(f, types_of(arguments), xs[0].type.shape[0]), arguments);
}

// ---- compiling and running (engine/compile, engine/runtime) --------------------------------------------------------
// An executable is the list of equations over memory planned in advance. Replicas are *logical*: the batch is cut into V
// shards, and D threads share them. Sums over shards follow one tree, whoever computed the leaves: the bits depend on V.

struct Executable {
  Function f;
  Vars slot;  // by var: where it lies; slots of dead values serve again
  int slots = 0;
};
Executable compile(const Function& f) {
  Executable e{f, Vars(f.types.size())};
  std::vector<const Equation*> last_use(f.types.size());
  for (const Equation& eq : f.equations) {
    for (int v : eq.in) last_use[v] = &eq;
  }
  for (int v : joined(f.inputs, f.outputs)) last_use[v] = nullptr;  // they stay
  for (int v : f.inputs) e.slot[v] = e.slots++;
  std::multimap<int, int> idle;  // size -> slot
  for (const Equation& eq : f.equations) {
    const auto found = idle.extract(size(f.types[eq.out].shape));
    e.slot[eq.out] = found ? found.mapped() : e.slots++;
    for (int v : eq.in) {
      if (last_use[v] != &eq) continue;
      idle.insert({size(f.types[v].shape), e.slot[v]});
      last_use[v] = nullptr;
    }
  }
  return e;
}

using Memory = std::vector<std::vector<Data>>;  // by shard and slot

/// S(a, b) = x_a where b = a + 1, else S(a, m) + S(m, b) with m in the middle.
Data tree_sum(const Memory& memory, int slot, size_t a, size_t b) {
  if (b == a + 1) return memory[a][slot];
  Data left = tree_sum(memory, slot, a, (a + b) / 2);
  const Data right = tree_sum(memory, slot, (a + b) / 2, b);
  std::ranges::transform(left, right, left.begin(), std::plus<>());
  return left;
}

/// Inputs lie in the memory. Thread d runs its shards up to the next psum, then all meet.
void run(const Executable& e, Memory& memory, int devices) {
  const int shards = static_cast<int>(memory.size());
  std::barrier meeting(devices);
  const auto work = [&](int device) {
    for (const Equation& eq : e.f.equations) {
      const int out = e.slot[eq.out];
      if (eq.op == &psum_op) {
        meeting.arrive_and_wait();
        if (device == 0) {
          const Data total = tree_sum(memory, e.slot[eq.in[0]], 0, memory.size());
          for (auto& shard : memory) shard[out] = total;
        }
        meeting.arrive_and_wait();
        continue;
      }
      for (int s = device * shards / devices; s < (device + 1) * shards / devices; ++s) {
        memory[s][out].assign(size(e.f.types[eq.out].shape), 0);
        const Operands in = mapped(eq.in, [&](int v) -> const double* { return memory[s][e.slot[v]].data(); });
        eq.op->run(memory[s][out], in, at(e.f.types, eq.in), eq.attr);
      }
    }
  };
  std::vector<std::jthread> team;
  for (int d = 1; d < devices; ++d) team.emplace_back(work, d);
  work(0);
}

/// Cuts axis 0 of the arguments named in `sharded` into V shards; the others are replicated, results must be invariant.
/// Traced and compiled once for each list of types, as jit is: jit(f) is pmap(f, {}, 1, 1).
Body pmap(Body body, Vars sharded, int shards, int devices) {
  auto cache = std::make_shared<std::map<Types, Executable>>();
  return [=](const Arrays& xs) {
    Types local = types_of(xs);
    for (int i : sharded) {
      if (local[i].shape[0] % shards != 0) throw std::invalid_argument("the shards cannot share axis 0 equally");
      local[i] = {local[i].shape, true};
      local[i].shape[0] /= shards;
    }
    if (!cache->contains(local)) {
      const Function f = trace(body, local);
      for (int v : f.outputs) {
        if (f.types[v].varying) throw std::invalid_argument("a result varies over the replicas: psum it");
      }
      cache->insert({local, compile(f)});
    }
    const Executable& e = cache->at(local);
    const Arrays arguments = joined(xs, e.f.captured);
    Memory memory(shards, std::vector<Data>(e.slots));
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Type& type = e.f.types[e.f.inputs[i]];
      for (int s = 0; s < shards; ++s) {
        const double* from = arguments[i].data->data() + (type.varying ? s * size(type.shape) : 0);
        memory[s][e.slot[e.f.inputs[i]]].assign(from, from + size(type.shape));
      }
    }
    run(e, memory, devices);
    return mapped(e.f.outputs, [&](int v) { return array(e.f.types[v].shape, memory[0][e.slot[v]]); });
  };
}
Body jit(Body body) { return pmap(body, {}, 1, 1); }

// ---- a program -----------------------------------------------------------------------------------------------------
// Rows x of three numbers; the model sin(w . x); the loss is the squared error summed over the whole batch. A shard sees
// its own rows, so its part is psummed; on whole arrays there is nothing to psum.

Array predict(const Array& w, const Array& x) {
  return vmap([&](const Arrays& row) { return Arrays{sin(sum(w * row[0], 0))}; }, {x})[0];
}

Arrays loss(const Array& w, const Array& x, const Array& y) {
  const Array error = predict(w, x) - y;
  const Array part = sum(error * error, 0);
  return {part.type.varying ? psum(part) : part};
}

Arrays step(const Arrays& a) {
  const Array &w = a[0], &x = a[1], &y = a[2];
  const Arrays both = value_and_grad([&](const Arrays& v) { return loss(v[0], x, y); }, {w});
  return {w - both[1] * constant(w.type.shape, 0.05), both[0]};
}

int main() {
  constexpr int rows = 16, shards = 8;
  Data numbers(rows * 3);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(0.7 * static_cast<double>(i * i));
  const Array x = array({rows, 3}, numbers);
  const Array y = predict(array({3}, {0.3, -0.5, 0.8}), x);
  const auto train = [&](const char* name, const Body& compiled) {
    Arrays state{constant({3}, 0), constant({}, 0)};
    for (int i = 0; i < 300; ++i) state = compiled({state[0], x, y});
    const Data& w = *state[0].data;
    std::printf("%-12s loss %.1e, weights %.4f %.4f %.4f\n", name, state[1].data->at(0), w[0], w[1], w[2]);
    return w;
  };
  train("jit", jit(step));
  const Data one = train("1 device", pmap(step, {1, 2}, shards, 1));
  bool same_bits = true;
  for (const auto& [name, devices] : {std::pair{"2 devices", 2}, {"4 devices", 4}, {"8 devices", 8}}) {
    same_bits = train(name, pmap(step, {1, 2}, shards, devices)) == one && same_bits;
  }
  std::printf("the same bits: %s\n", same_bits ? "yes" : "no");
  const Function f = trace(step, {{{3}}, {{rows / shards, 3}, true}, {{rows / shards}, true}});
  std::printf("sums over the replicas: %ld (the loss, the gradient)\n",
              std::ranges::count_if(f.equations, [](const Equation& e) { return e.op == &psum_op; }));
  try {
    jit([](const Arrays& a) { return Arrays{psum(a[0])}; })({x});
  } catch (const std::invalid_argument& error) {
    std::printf("error: %s\n", error.what());
  }
}
