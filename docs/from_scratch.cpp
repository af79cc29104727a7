// Lockstep's idea, from nothing but the standard library: types, trace, jvp, transpose, grad, vmap, jit and pmap.
// Read it from the top. Each part is the small brother of a folder of engine/.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// ---- types (engine/core) -------------------------------------------------------------------------------------------
// An array's type says its shape, and whether replicas may hold different values: `varying`.

using Shape = std::vector<int>;
struct Type {
  Shape shape;
  bool varying = false;
  auto operator<=>(const Type&) const = default;
};
using Data = std::vector<double>;

int size(const Shape& shape) {
  int n = 1;
  for (int extent : shape) n *= extent;
  return n;
}

// ---- programs (engine/ir) ------------------------------------------------------------------------------------------
// A function is a list of equations, each with one result. Vars are indices into the list of types.

struct Op;
struct Attr {
  int axis = 0;
  int extent = 0;
  double value = 0;
  Shape shape = {};
};
struct Equation {
  const Op* op;
  Attr attr;
  std::vector<int> in;
  int out;
};
struct Function {
  std::vector<Type> types;
  std::vector<int> inputs;
  std::vector<Equation> equations;
  std::vector<int> outputs;
};

// An Array is a handle: of data, or of a var of the trace that is open.
struct Builder;
struct Array {
  Type type;
  std::shared_ptr<const Data> data;
  Builder* builder = nullptr;
  int var = -1;
};
using Arrays = std::vector<Array>;
using Tangent = std::optional<Array>;  // nothing means zero

// All facts of an op stand in one place: type, kernel, derivative, transpose, batching. Rules are formulas in ops, so what
// they emit can be transformed again.
struct Op {
  std::string name;
  std::function<Type(const std::vector<Type>&, const Attr&)> infer;
  std::function<void(const std::vector<const double*>&, const std::vector<Type>&, const Attr&, Data&)> run;
  /// Cotangents of the operands from the result's; `known` has the operands that are not transposed.
  using Known = std::vector<std::optional<Array>>;
  std::function<std::vector<Tangent>(const Array& ct, const Known& known, const std::vector<Type>&, const Attr&)>
      transpose = nullptr;
  /// Absent: the op is linear, so its tangent is the op itself on the operand's tangent.
  std::function<Array(const Arrays& x, const std::vector<Tangent>& dx)> jvp = nullptr;
  /// Absent: the op is element-wise, so it needs nothing but operands that are all batched.
  std::function<Array(const Arrays& x, int extent, const Attr&)> batch = nullptr;
};

// ---- the tracer (engine/trace) -------------------------------------------------------------------------------------
// While a trace is open every op is staged. Values of outside that it uses become inputs: `captured`.

struct Builder {
  Function f;
  Arrays captured;
  std::map<std::pair<Builder*, int>, int> of_outer;
  std::map<int, int> pvaried;  // one pvary a value, however often it is used

  int add_type(const Type& type) {
    f.types.push_back(type);
    return static_cast<int>(f.types.size()) - 1;
  }
  Array handle(int var) { return {f.types[var], nullptr, this, var}; }
  Array input(const Type& type) {
    f.inputs.push_back(add_type(type));
    return handle(f.inputs.back());
  }
  int lift(const Array& x) {
    if (x.builder == this) return x.var;
    const std::pair<Builder*, int> key{x.builder, x.var};
    if (x.builder != nullptr && of_outer.contains(key)) return of_outer[key];
    captured.push_back(x);
    return of_outer[key] = input(x.type).var;
  }
};
thread_local std::vector<Builder*> open_traces;  // the one ambient thing

Array bind(const Op& op, Arrays xs, Attr attr = {});
Array pvary(const Array& x);

Array bind(const Op& op, Arrays xs, Attr attr) {
  const bool any_varying = std::ranges::any_of(xs, [](const Array& x) { return x.type.varying; });
  std::vector<Type> types;
  for (Array& x : xs) {
    if (any_varying && !x.type.varying) x = pvary(x);  // mixing makes the invariant operand vary
    types.push_back(x.type);
  }
  const Type result = op.infer(types, attr);
  if (open_traces.empty()) {
    Data out(size(result.shape));
    std::vector<const double*> in;
    for (const Array& x : xs) in.push_back(x.data->data());
    op.run(in, types, attr, out);
    return {result, std::make_shared<const Data>(std::move(out))};
  }
  Builder& b = *open_traces.back();
  Equation equation{&op, attr, {}, 0};
  for (const Array& x : xs) equation.in.push_back(b.lift(x));
  equation.out = b.add_type(result);
  b.f.equations.push_back(equation);
  return b.handle(equation.out);
}

using Body = std::function<Arrays(const Arrays&)>;
struct Traced {
  Function f;  // inputs: arguments, then captured arrays
  Arrays captured;
};
Traced trace(const Body& body, const std::vector<Type>& types) {
  Builder b;
  open_traces.push_back(&b);
  Arrays arguments, results;
  try {
    for (const Type& type : types) arguments.push_back(b.input(type));
    results = body(arguments);
    for (const Array& y : results) b.f.outputs.push_back(b.lift(y));
  } catch (...) {
    open_traces.pop_back();
    throw;
  }
  open_traces.pop_back();
  return {std::move(b.f), std::move(b.captured)};
}

/// The function on arguments, equation by equation: staged where a trace is open, computed where none is.
Arrays call(const Function& f, const Arrays& arguments) {
  std::vector<Array> value(f.types.size());
  for (size_t i = 0; i < f.inputs.size(); ++i) value[f.inputs[i]] = arguments[i];
  Arrays outputs;
  for (const Equation& e : f.equations) {
    Arrays xs;
    for (int v : e.in) xs.push_back(value[v]);
    value[e.out] = bind(*e.op, xs, e.attr);
  }
  for (int v : f.outputs) outputs.push_back(value[v]);
  return outputs;
}

// ---- ops (engine/ops) ----------------------------------------------------------------------------------------------

Array constant(Shape shape, double value);
Array broadcast(const Array& x, int axis, int extent);
Array sum(const Array& x, int axis);
Array add(const Array& a, const Array& b);
Array mul(const Array& a, const Array& b);
Array neg(const Array& x);
Array sin(const Array& x);
Array cos(const Array& x);
Array psum(const Array& x);

using Tangents = std::vector<Tangent>;
Tangent plus(const Tangent& a, const Tangent& b) { return !a ? b : !b ? a : Tangent(add(*a, *b)); }
Tangent times(const Tangent& a, const Tangent& b) { return a && b ? Tangent(mul(*a, *b)) : Tangent(); }

Type same(const std::vector<Type>& in, const Attr&) {
  for (const Type& t : in) {
    if (t.shape != in[0].shape) throw std::invalid_argument("shapes differ; broadcast one of them");
  }
  return in[0];
}
template <class F>
auto each(F f) {
  return [f](const auto& in, const auto&, const Attr&, Data& out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = f(in, i);
  };
}
// Row-major: an axis cuts an array into blocks of `extent` rows of `inner` elements.
int inner(const Shape& s, int axis) { return size(Shape(s.begin() + axis, s.end())); }
Type inserted(Type t, const Attr& a) { return t.shape.insert(t.shape.begin() + a.axis, a.extent), t; }
Type erased(Type t, const Attr& a) { return t.shape.erase(t.shape.begin() + a.axis), t; }

const Op full_op{"full", [](const auto&, const Attr& a) { return Type{a.shape}; },
                 [](const auto&, const auto&, const Attr& a, Data& out) { std::ranges::fill(out, a.value); }};
const Op add_op{"add", same, each([](const auto& in, size_t i) { return in[0][i] + in[1][i]; }),
                [](const Array& ct, const auto& known, const auto&, const Attr&) {
                  return Tangents{known[0] ? Tangent() : ct, known[1] ? Tangent() : ct};
                },
                [](const Arrays&, const Tangents& dx) { return *plus(dx[0], dx[1]); }};
const Op mul_op{"mul", same, each([](const auto& in, size_t i) { return in[0][i] * in[1][i]; }),
                [](const Array& ct, const auto& known, const auto&, const Attr&) {
                  return Tangents{times(ct, known[1]), times(known[0], ct)};
                },
                [](const Arrays& x, const Tangents& dx) { return *plus(times(dx[0], x[1]), times(x[0], dx[1])); }};
const Op neg_op{"neg", same, each([](const auto& in, size_t i) { return -in[0][i]; }),
                [](const Array& ct, const auto&, const auto&, const Attr&) { return Tangents{neg(ct)}; }};
const Op sin_op{"sin", same, each([](const auto& in, size_t i) { return std::sin(in[0][i]); }), nullptr,
                [](const Arrays& x, const Tangents& dx) { return mul(*dx[0], cos(x[0])); }};
const Op cos_op{"cos", same, each([](const auto& in, size_t i) { return std::cos(in[0][i]); }), nullptr,
                [](const Arrays& x, const Tangents& dx) { return neg(mul(*dx[0], sin(x[0]))); }};
const Op broadcast_op{
    "broadcast",
    [](const auto& in, const Attr& a) { return inserted(in[0], a); },
    [](const auto& in, const auto& types, const Attr& a, Data& out) {
      const int n = inner(types[0].shape, a.axis);
      for (int i = 0; i < static_cast<int>(out.size()); ++i) {
        out[i] = in[0][i / (n * a.extent) * n + i % n];
      }
    },
    [](const Array& ct, const auto&, const auto&, const Attr& a) { return Tangents{sum(ct, a.axis)}; },
    nullptr,
    [](const Arrays& x, int, const Attr& a) { return broadcast(x[0], a.axis + 1, a.extent); }};
const Op sum_op{"sum",
                [](const auto& in, const Attr& a) { return erased(in[0], a); },
                [](const auto& in, const auto& types, const Attr& a, Data& out) {
                  const int n = inner(types[0].shape, a.axis + 1), extent = types[0].shape[a.axis];
                  for (int i = 0; i < size(types[0].shape); ++i) out[i / (n * extent) * n + i % n] += in[0][i];
                },
                [](const Array& ct, const auto&, const auto& in, const Attr& a) {
                  return Tangents{broadcast(ct, a.axis, in[0].shape[a.axis])};
                },
                nullptr,
                [](const Arrays& x, int, const Attr& a) { return sum(x[0], a.axis + 1); }};

// pvary and psum are each other's transposes. That is why a weight that enters a map invariant, and is made varying once,
// has a gradient that is summed over the replicas exactly once.
const Op pvary_op{"pvary",
                  [](const auto& in, const Attr&) {
                    return Type{in[0].shape, true};
                  },
                  each([](const auto& in, size_t i) { return in[0][i]; }),
                  [](const Array& ct, const auto&, const auto&, const Attr&) { return Tangents{psum(ct)}; }};
const Op psum_op{"psum",
                 [](const auto& in, const Attr&) {
                   if (!in[0].varying) throw std::invalid_argument("psum of an invariant value: it is summed already");
                   return Type{in[0].shape, false};
                 },
                 nullptr,  // needs all replicas: see `run`
                 [](const Array& ct, const auto&, const auto&, const Attr&) { return Tangents{pvary(ct)}; }};

Array constant(Shape shape, double value) { return bind(full_op, {}, {0, 0, value, std::move(shape)}); }
Array add(const Array& a, const Array& b) { return bind(add_op, {a, b}); }
Array mul(const Array& a, const Array& b) { return bind(mul_op, {a, b}); }
Array neg(const Array& x) { return bind(neg_op, {x}); }
Array sin(const Array& x) { return bind(sin_op, {x}); }
Array cos(const Array& x) { return bind(cos_op, {x}); }
Array broadcast(const Array& x, int axis, int extent) { return bind(broadcast_op, {x}, {axis, extent}); }
Array sum(const Array& x, int axis) { return bind(sum_op, {x}, {axis}); }
Array psum(const Array& x) { return bind(psum_op, {x}); }
Array pvary(const Array& x) {
  if (open_traces.empty()) throw std::invalid_argument("pvary has a meaning inside a map only");
  Builder& b = *open_traces.back();
  const int var = b.lift(x);
  if (x.type.varying) return b.handle(var);
  if (!b.pvaried.contains(var)) b.pvaried[var] = bind(pvary_op, {x}).var;
  return b.handle(b.pvaried[var]);
}
Array operator+(const Array& a, const Array& b) { return add(a, b); }
Array operator*(const Array& a, const Array& b) { return mul(a, b); }
Array operator-(const Array& a, const Array& b) { return add(a, neg(b)); }

// ---- transforms (engine/transform) ---------------------------------------------------------------------------------
// Each takes a Function and traces a new one: no flag on an array, no tracer inside a tracer's value.

std::vector<Type> types_of(const Function& f, const std::vector<int>& vars) {
  std::vector<Type> types;
  for (int v : vars) types.push_back(f.types[v]);
  return types;
}

/// (x..., dx...) -> (y..., dy...)
Function jvp(const Function& f) {
  const size_t n = f.inputs.size();
  std::vector<Type> types = types_of(f, f.inputs);
  for (size_t i = 0; i < n; ++i) types.push_back(types[i]);
  const Body body = [&](const Arrays& in) {
    std::vector<Array> x(f.types.size());
    Tangents dx(f.types.size());
    for (size_t i = 0; i < n; ++i) x[f.inputs[i]] = in[i], dx[f.inputs[i]] = in[n + i];
    for (const Equation& e : f.equations) {
      Arrays xs;
      Tangents ts;
      for (int v : e.in) xs.push_back(x[v]), ts.push_back(dx[v]);
      x[e.out] = bind(*e.op, xs, e.attr);
      if (std::ranges::none_of(ts, [](const Tangent& t) { return t.has_value(); })) continue;
      dx[e.out] = e.op->jvp ? e.op->jvp(xs, ts) : bind(*e.op, {*ts[0]}, e.attr);
    }
    Arrays out;
    for (int v : f.outputs) out.push_back(x[v]);
    for (int v : f.outputs) out.push_back(dx[v] ? *dx[v] : constant(f.types[v].shape, 0));
    return out;
  };
  return trace(body, types).f;
}

/// (x...) -> (y, gradient of y with respect to each x): of the jvp, what does not depend on dx runs forwards, the rest,
/// which is linear, backwards.
Function value_and_grad(const Function& f) {
  const Function both = jvp(f);
  const size_t n = f.inputs.size();
  const Body body = [&](const Arrays& in) {
    Op::Known value(both.types.size());
    std::vector<bool> linear(both.types.size());
    for (size_t i = 0; i < n; ++i) value[both.inputs[i]] = in[i], linear[both.inputs[n + i]] = true;
    for (const Equation& e : both.equations) {
      linear[e.out] = std::ranges::any_of(e.in, [&](int v) { return linear[v]; });
      if (linear[e.out]) continue;
      Arrays xs;
      for (int v : e.in) xs.push_back(*value[v]);
      value[e.out] = bind(*e.op, xs, e.attr);
    }
    Tangents ct(both.types.size());
    ct[both.outputs[1]] = constant({}, 1);
    for (auto e = both.equations.rbegin(); e != both.equations.rend(); ++e) {
      if (!linear[e->out] || !ct[e->out]) continue;
      Op::Known known;
      for (int v : e->in) known.push_back(value[v]);
      const Tangents back = e->op->transpose(*ct[e->out], known, types_of(both, e->in), e->attr);
      for (size_t i = 0; i < back.size(); ++i) {
        if (linear[e->in[i]]) ct[e->in[i]] = plus(ct[e->in[i]], back[i]);
      }
    }
    Arrays out{*value[both.outputs[0]]};
    for (size_t i = 0; i < n; ++i) {
      const Tangent& gradient = ct[both.inputs[n + i]];
      out.push_back(gradient ? *gradient : constant(f.types[f.inputs[i]].shape, 0));
    }
    return out;
  };
  return trace(body, types_of(f, f.inputs)).f;
}

/// Batched inputs and all outputs carry a new axis 0.
Function vmap(const Function& f, const std::vector<bool>& batched_inputs, int extent) {
  std::vector<Type> types = types_of(f, f.inputs);
  for (size_t i = 0; i < types.size(); ++i) {
    if (batched_inputs[i]) types[i] = inserted(types[i], {0, extent});
  }
  const Body body = [&](const Arrays& in) {
    std::vector<Array> x(f.types.size());
    std::vector<bool> batched(f.types.size());
    const auto with_batch = [&](int v) { return batched[v] ? x[v] : broadcast(x[v], 0, extent); };
    for (size_t i = 0; i < in.size(); ++i) x[f.inputs[i]] = in[i], batched[f.inputs[i]] = batched_inputs[i];
    for (const Equation& e : f.equations) {
      batched[e.out] = std::ranges::any_of(e.in, [&](int v) { return batched[v]; });
      Arrays xs;
      for (int v : e.in) xs.push_back(batched[e.out] ? with_batch(v) : x[v]);
      x[e.out] = batched[e.out] && e.op->batch ? e.op->batch(xs, extent, e.attr) : bind(*e.op, xs, e.attr);
    }
    Arrays out;
    for (int v : f.outputs) out.push_back(with_batch(v));
    return out;
  };
  return trace(body, types).f;
}

/// A transform of C++ functions: traced, transformed, called. Captured arrays are passed as further arguments.
template <class Transform>
Arrays apply_transformed(const Transform& transform, const Body& body, const std::vector<Type>& types, Arrays xs) {
  const Traced traced = trace(body, types);
  xs.insert(xs.end(), traced.captured.begin(), traced.captured.end());
  return call(transform(traced.f), xs);
}

/// body(xs) and its gradients with respect to xs (behind them, those of captured arrays).
Arrays value_and_grad(const Body& body, const Arrays& xs) {
  std::vector<Type> types;
  for (const Array& x : xs) types.push_back(x.type);
  return apply_transformed([](const Function& f) { return value_and_grad(f); }, body, types, xs);
}
/// body over axis 0 of all xs at once; what it captures is the same for all.
Arrays vmap(const Body& body, const Arrays& xs) {
  std::vector<Type> types;
  for (const Array& x : xs) types.push_back(erased(x.type, {0}));
  const auto transform = [&](const Function& f) {
    std::vector<bool> batched(f.inputs.size());
    std::fill_n(batched.begin(), xs.size(), true);
    return vmap(f, batched, xs[0].type.shape[0]);
  };
  return apply_transformed(transform, body, types, xs);
}

// ---- compiling and running (engine/compile, engine/runtime) --------------------------------------------------------
// An executable is the list of equations over memory planned in advance. Replicas are *logical*: the batch is cut into V
// shards, and D threads share them. Sums over shards follow one tree, whoever computed the leaves: the bits depend on V.

struct Executable {
  Function f;
  std::vector<int> slot;  // by var: where it lies; slots of dead values serve again
  int slots = 0;
};
Executable compile(const Function& f) {
  Executable e{f, std::vector<int>(f.types.size(), -1)};
  std::vector<int> last(f.types.size(), -1);
  for (size_t i = 0; i < f.equations.size(); ++i) {
    for (int v : f.equations[i].in) last[v] = static_cast<int>(i);
  }
  for (int v : f.outputs) last[v] = static_cast<int>(f.equations.size());
  for (int v : f.inputs) e.slot[v] = e.slots++, last[v] = static_cast<int>(f.equations.size());
  std::multimap<int, int> idle;  // size -> slot
  for (size_t i = 0; i < f.equations.size(); ++i) {
    const Equation& eq = f.equations[i];
    const auto found = idle.find(size(f.types[eq.out].shape));
    e.slot[eq.out] = found == idle.end() ? e.slots++ : found->second;
    if (found != idle.end()) idle.erase(found);
    for (int v : eq.in) {
      if (last[v] == static_cast<int>(i)) idle.insert({size(f.types[v].shape), e.slot[v]}), last[v] = -1;
    }
  }
  return e;
}

/// S(a, b) = x_a where b = a + 1, else S(a, m) + S(m, b) with m in the middle.
Data tree_sum(const std::vector<const Data*>& leaves, size_t a, size_t b) {
  if (b == a + 1) return *leaves[a];
  Data left = tree_sum(leaves, a, (a + b) / 2);
  const Data right = tree_sum(leaves, (a + b) / 2, b);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

/// `memory[shard][slot]`, inputs filled in. Thread d runs its shards up to the next psum, then all meet.
void run(const Executable& e, std::vector<std::vector<Data>>& memory, int devices) {
  const int shards = static_cast<int>(memory.size());
  std::barrier meeting(devices);
  const auto work = [&](int device) {
    for (const Equation& eq : e.f.equations) {
      const int out = e.slot[eq.out];
      if (eq.op == &psum_op) {
        meeting.arrive_and_wait();
        if (device == 0) {
          std::vector<const Data*> leaves;
          for (const auto& shard : memory) leaves.push_back(&shard[e.slot[eq.in[0]]]);
          const Data total = tree_sum(leaves, 0, leaves.size());
          for (auto& shard : memory) shard[out] = total;
        }
        meeting.arrive_and_wait();
        continue;
      }
      for (int s = device * shards / devices; s < (device + 1) * shards / devices; ++s) {
        memory[s][out].assign(size(e.f.types[eq.out].shape), 0);
        std::vector<const double*> in;
        std::vector<Type> types = types_of(e.f, eq.in);
        for (int v : eq.in) in.push_back(memory[s][e.slot[v]].data());
        eq.op->run(in, types, eq.attr, memory[s][out]);
      }
    }
  };
  std::vector<std::jthread> team;
  for (int d = 1; d < devices; ++d) team.emplace_back(work, d);
  work(0);
}

/// Cuts axis 0 of every argument marked `sharded` into V shards; the others are replicated, results must be invariant.
/// Traced and compiled once for each list of types, as jit is: jit(f) is pmap(f, {}, 1, 1).
Body pmap(Body body, std::vector<bool> sharded, int shards, int devices) {
  auto cache = std::make_shared<std::map<std::vector<Type>, std::pair<Executable, Arrays>>>();
  return [=](const Arrays& xs) {
    std::vector<Type> local;
    for (size_t i = 0; i < xs.size(); ++i) {
      local.push_back(xs[i].type);
      if (i >= sharded.size() || !sharded[i]) continue;
      if (local[i].shape[0] % shards != 0) throw std::invalid_argument("the shards cannot share axis 0 equally");
      local[i].shape[0] /= shards;
      local[i].varying = true;
    }
    if (!cache->contains(local)) {
      Traced traced = trace(body, local);
      for (int v : traced.f.outputs) {
        if (traced.f.types[v].varying) throw std::invalid_argument("a result varies over the replicas: psum it");
      }
      cache->insert({local, {compile(traced.f), traced.captured}});
    }
    const auto& [executable, captured] = cache->at(local);
    Arrays arguments = xs;
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    std::vector<std::vector<Data>> memory(shards, std::vector<Data>(executable.slots));
    for (int s = 0; s < shards; ++s) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        const int var = executable.f.inputs[i];
        const int n = size(executable.f.types[var].shape);
        const double* from = arguments[i].data->data() + (executable.f.types[var].varying ? s * n : 0);
        memory[s][executable.slot[var]].assign(from, from + n);
      }
    }
    run(executable, memory, devices);
    Arrays results;
    for (int v : executable.f.outputs) {
      results.push_back({executable.f.types[v], std::make_shared<const Data>(memory[0][executable.slot[v]])});
    }
    return results;
  };
}
Body jit(Body body) { return pmap(body, {}, 1, 1); }

// ---- a program -----------------------------------------------------------------------------------------------------
// Rows x of three numbers; the model sin(w . x); the loss is the squared error summed over the whole batch. A shard sees
// its own rows, so its part is psummed; on whole arrays there is nothing to psum.

Arrays loss(const Array& w, const Array& x, const Array& y) {
  const Array predictions = vmap([&](const Arrays& row) { return Arrays{sin(sum(w * row[0], 0))}; }, {x})[0];
  const Array error = predictions - y;
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
  const auto array = [](const Shape& s, auto f) {
    Data data(size(s));
    for (size_t i = 0; i < data.size(); ++i) data[i] = f(i);
    return Array{{s}, std::make_shared<const Data>(std::move(data))};
  };
  const Array x = array({rows, 3}, [](size_t i) { return std::sin(0.7 * static_cast<double>(i * i)); });
  const Data& v = *x.data;
  const Array y =
      array({rows}, [&](size_t i) { return std::sin(0.3 * v[3 * i] - 0.5 * v[3 * i + 1] + 0.8 * v[3 * i + 2]); });
  const auto train = [&](const char* name, const Body& compiled) {
    Arrays state{constant({3}, 0), constant({}, 0)};
    for (int i = 0; i < 300; ++i) state = compiled({state[0], x, y});
    const Data& w = *state[0].data;
    std::printf("%-12s loss %.1e, weights %.4f %.4f %.4f\n", name, state[1].data->at(0), w[0], w[1], w[2]);
    return w;
  };
  train("jit", jit(step));
  const Data one = train("1 device", pmap(step, {false, true, true}, shards, 1));
  bool same_bits = true;
  for (const auto& [name, devices] : {std::pair{"2 devices", 2}, {"4 devices", 4}, {"8 devices", 8}}) {
    same_bits = train(name, pmap(step, {false, true, true}, shards, devices)) == one && same_bits;
  }
  std::printf("the same bits: %s\n", same_bits ? "yes" : "no");
  const Function f = trace(step, {{{3}}, {{rows / shards, 3}, true}, {{rows / shards}, true}}).f;
  std::printf("sums over the replicas: %ld (the loss, the gradient)\n",
              std::ranges::count_if(f.equations, [](const Equation& e) { return e.op == &psum_op; }));
  try {
    jit([](const Arrays& a) { return Arrays{psum(a[0])}; })({x});
  } catch (const std::invalid_argument& error) {
    std::printf("error: %s\n", error.what());
  }
}
