#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/named_scope.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/tree.h>

namespace lockstep {

extern template class LOCKSTEP_API detail::OutOfLine<std::optional<Layout>>;

/// What a variable is declared as. Aggregation is checked against the dtype at declaration.
struct VariableSpec {
  Shape shape;
  DType dtype = float32;
  Initializer initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;
  detail::OutOfLine<std::optional<Layout>> layout =
      {};  ///< Where model_parallel trains it: goes before the rules of its map.
  /// Whether a trainable one is given in the compute dtype of its scope's precision; false: as it is kept.
  bool cast = true;
};

/// A declared variable, as `Model::variables` lists it.
struct Variable {
  std::string path;
  ArrayType type;
  bool trainable = true;
  Aggregation aggregation = Aggregation::none;
};

/// What a call of a model knows of its batch.
struct CallOptions {
  /// Weight of each row of the batch, f32[B]: 0 marks padding. Empty: every row counts. Layers that mix rows see it.
  /// Outside of maps an input whose leaves all have B rows, or rank 0, is given a real row's values there (`fill_masked_rows`).
  Array rows;
};

class Scope;
class PrecisionPolicy;
namespace detail {
class ScopeFrame;
struct PrecisionInUse;
using LayerBody = std::function<Tree(const Scope&, const Tree&)>;
using ModelFunction = std::function<Tree(Scope&, const Tree&)>;
/// What scan_layers of scan_layers.h calls.
LOCKSTEP_API Tree scan_layers(const Scope& scope, std::int64_t n, const LayerBody& body, const Tree& x,
                              std::int64_t unroll);
/// What with_precision of precision_policy.h makes of a model's function.
LOCKSTEP_API Tree call_with_precision(const PrecisionPolicy& policy, const ModelFunction& function, const Scope& scope,
                                      const Tree& x);
}  // namespace detail

/// A place in a model's tree of variables, handed down from layer to layer. Variables come to be in `init` only; in
/// `stateless_call` the same declarations look them up. Layers may be called inside remat, scan, while_loop, fori_loop,
/// map, cond, switch_, grad, vjp, jvp, linearize, vmap, jit and custom derivatives: `init` makes the same variables as
/// without, loops carry what changes from one iteration to the next, each iteration draws anew, vmap draws for each
/// example and shares what changes (docs/guides/layers_under_transforms.md).
class LOCKSTEP_API Scope {
 public:
  Scope(std::shared_ptr<detail::ScopeFrame> frame, std::string path);
  Scope(const Scope& other);
  Scope(Scope&& other) noexcept;
  Scope& operator=(const Scope& other);
  Scope& operator=(Scope&& other) noexcept;
  ~Scope();

  /// The child of that name; names hold no '/'.
  Scope operator[](std::string_view name) const;
  const std::string& path() const { return path_; }
  /// What a layer computes while the result lives carries this path: `const NamedScope named = scope.named();`
  NamedScope named() const;

  /// The scope with another precision for all below it (precision_policy.h).
  Scope with_precision(const PrecisionPolicy& policy) const;
  /// A float in the dtype that this layer computes in: what a layer calls first on each of its inputs. Without a
  /// precision, and for all that is no float, the array itself.
  Array in_compute_dtype(const Array& x) const;

  /// The variable's current value. Two declarations on one path with the same spec share it; other specs throw
  /// StateError. In `stateless_call` a path that `init` did not make throws StateError. Where the scope has a precision,
  /// trainable floats are kept in its param_dtype, whatever dtype the spec has, and given in its compute_dtype.
  Array trainable(std::string_view name, const VariableSpec& spec) const;
  Array non_trainable(std::string_view name, const VariableSpec& spec) const;

  /// The new value of a declared non-trainable variable, combined over replicas as it declares: `none` must be
  /// invariant already, `mean` is averaged, each replica counting by its real rows (`mean_over_rows`), `only_first_replica` takes replica 0's. Throws AggregationError for a `sum`
  /// variable (use accumulate), StateError for one that is trainable, not declared or of another type.
  void assign(std::string_view name, const Array& value) const;
  /// new = old + psum(contribution), for `sum` variables only. Added in at least float32, integers in 64 bits, and
  /// rounded once; an integer that its dtype cannot hold makes the call that runs it throw CheckError.
  void accumulate(std::string_view name, const Array& contribution) const;

  /// A fresh key. The layer owns one leaf "<path>/rng", uint32[3]: key words and a count. Draw i of a call uses
  /// fold_in(fold_in(key, count), i); a training call returns count + 1, an evaluation call the leaf unchanged.
  Array next_key() const;
  /// For a draw beside `x`, the layer's input: inside a vmap it tells whether that goes through the rows of the batch.
  /// Throws MeshError where a mesh cuts the batch and the draw would depend on how: in a scan over the rows, or where
  /// rows and examples cannot be told apart.
  Array next_key(const Array& x) const;

  /// For messages and listings: nothing that a layer does need depend on it.
  bool is_init() const;
  bool training() const;
  /// Weights of the batch's rows, or an empty Array.
  /// In a vmap over the batch, of its row: a scalar.
  Array rows() const;
  Array rows(const Array& x) const;
  /// The mean over dimension 0 of x, which has a row for each row of this shard of the batch: rows of weight 0, which pad,
  /// do not count. 0 where no row counts. Summed in at least float32. For new values of variables that declare `mean`. In a
  /// vmap over the rows x is one row's, and its own mean. Throws ShapeError where x has another number of rows.
  Array mean_over_rows(const Array& x) const;
  /// Mesh axes that cut the batch; empty outside a map.
  const AxisSet& batch_axes() const;
  /// Placement of a draw over the batch: cut in dimension 0 along batch_axes.
  random::Placement over_batch() const;
  random::Placement over_batch(const Array& x) const;

 private:
  random::Placement placement(const Array* x) const;
  friend Tree detail::scan_layers(const Scope& scope, std::int64_t n, const detail::LayerBody& body, const Tree& x,
                                  std::int64_t unroll);
  friend Tree detail::call_with_precision(const PrecisionPolicy& policy, const detail::ModelFunction& function,
                                          const Scope& scope, const Tree& x);
  /// The same place in another frame.
  Scope in(std::shared_ptr<detail::ScopeFrame> frame) const;
  std::shared_ptr<detail::ScopeFrame> frame_;
  std::string path_;
  std::shared_ptr<const detail::LayerPlace> place_;
  std::shared_ptr<detail::PrecisionInUse> precision_;  ///< Null: none.
};

namespace detail {

/// What the functions of Model call, on trees: (trainable, non_trainable).
LOCKSTEP_API std::pair<Tree, Tree> init(const ModelFunction& function, const Array& key, const Tree& example);
/// In order of path.
LOCKSTEP_API std::vector<Variable> variables(const ModelFunction& function, const Tree& example);
/// (output, new non-trainable state).
LOCKSTEP_API std::pair<Tree, Tree> stateless_call(const ModelFunction& function, const Tree& trainable,
                                                  const Tree& non_trainable, const Tree& x, bool training,
                                                  const CallOptions& options);
/// The function, kept for all copies of a model.
LOCKSTEP_API std::shared_ptr<const ModelFunction> shared_function(ModelFunction function);
/// Throws ValueError where there is none.
LOCKSTEP_API const ModelFunction* held_function(const std::shared_ptr<const ModelFunction>& function);
/// Zeros of a type, never computed: stands for an input whose type alone matters.
LOCKSTEP_API Array example_of(const ArrayType& type);

/// A trainable variable that a call found declared with an aggregation.
struct DeclaredAggregation {
  std::string path;  ///< In the model.
  Aggregation aggregation = Aggregation::none;
  Array value;  ///< The leaf that the call was given for it.
};

/// A variable that a call found declared with a layout.
struct DeclaredLayout {
  std::string path;  ///< In the model.
  Layout layout;
  Array value;  ///< The leaf that the call was given for it.
};

/// A state variable to which a training call has given a new value.
struct AssignedState {
  std::string path;  ///< In the model.
  Array before;      ///< The leaf that the call was given for it.
};

/// While it lives, what calls of models on this thread find declared and assign. The calls are somewhere in a function
/// of the user's, which hands nothing down: so, as an open trace, it is known to the thread.
class LOCKSTEP_API DeclarationLog {
 public:
  DeclarationLog();
  ~DeclarationLog();
  DeclarationLog(const DeclarationLog&) = delete;
  DeclarationLog& operator=(const DeclarationLog&) = delete;

  const std::vector<DeclaredAggregation>& found() const;
  const std::vector<DeclaredLayout>& layouts() const;
  const std::vector<AssignedState>& assigned() const;
  /// For the innermost log of this thread, if there is one.
  static void note(DeclaredAggregation declared);
  static void note(DeclaredLayout declared);
  static void note(AssignedState assigned);

 private:
  struct Lists;
  Owned<Lists> lists_;
  DeclarationLog* outer_;
};

}  // namespace detail

/// A model: one function of a Scope (Scope& or const Scope&) and an input, which serves `init` and `stateless_call`. A
/// handle: copies share the function, so a loss holds its model by value, `[model](...)`; then a step or compiled
/// function made of the loss may outlive the variable, and the function that it stood in. A model holds its function,
/// and what that captures by value; what it captures by reference must live as long as all that holds the model. A
/// model that was moved away throws ValueError.
template <class X, class Y>
class Model {
 public:
  explicit Model(std::function<Y(Scope&, const X&)> function);

  /// (trainable, non_trainable) for inputs of the example's types (values are not read). The only place where variables
  /// come to be; each is drawn from fold_in(key, first four bytes of SHA-256(path)).
  [[nodiscard]] std::pair<Tree, Tree> init(const Array& key, const X& example) const;
  [[nodiscard]] std::pair<Tree, Tree> init(const Array& key, const ArrayType& type) const;
  /// What `init` would make, in order of path.
  std::vector<Variable> variables(const X& example) const;

  /// Pure: (output, new non-trainable state). `training` has no default and takes only a bool. Throws StateError naming
  /// the path of a missing, surplus or misshapen leaf.
  template <std::same_as<bool> Bool>
  [[nodiscard]] std::pair<Y, Tree> stateless_call(const Tree& trainable, const Tree& non_trainable, const X& x,
                                                  Bool training, const CallOptions& options = {}) const {
    return called(trainable, non_trainable, x, training, options);
  }

  const detail::ModelFunction& function() const { return *detail::held_function(function_); }

 private:
  std::pair<Y, Tree> called(const Tree& trainable, const Tree& non_trainable, const X& x, bool training,
                            const CallOptions& options) const;

  std::shared_ptr<const detail::ModelFunction> function_;
};

// Outside of the class, so that they are no inline functions: those of arrays are made once, in the library.
template <class X, class Y>
Model<X, Y>::Model(std::function<Y(Scope&, const X&)> function)
    : function_(detail::shared_function([function = std::move(function)](Scope& scope, const Tree& x) {
        return to_tree(function(scope, from_tree<X>(x)));
      })) {}
template <class X, class Y>
std::pair<Tree, Tree> Model<X, Y>::init(const Array& key, const X& example) const {
  return detail::init(function(), key, to_tree(example));
}
template <class X, class Y>
std::pair<Tree, Tree> Model<X, Y>::init(const Array& key, const ArrayType& type) const {
  return detail::init(function(), key, Tree(detail::example_of(type)));
}
template <class X, class Y>
std::vector<Variable> Model<X, Y>::variables(const X& example) const {
  return detail::variables(function(), to_tree(example));
}
template <class X, class Y>
std::pair<Y, Tree> Model<X, Y>::called(const Tree& trainable, const Tree& non_trainable, const X& x, bool training,
                                       const CallOptions& options) const {
  auto [y, next] = detail::stateless_call(function(), trainable, non_trainable, to_tree(x), training, options);
  return {from_tree<Y>(y), std::move(next)};
}

extern template class LOCKSTEP_API Model<Array, Array>;

template <class Y, class X>
Model(Y (*)(Scope&, const X&)) -> Model<X, Y>;
template <class Y, class X>
Model(Y (*)(const Scope&, const X&)) -> Model<X, Y>;

namespace detail {
template <class Signature>
struct ModelOf {
  static_assert(
      std::is_same_v<Signature, int>,
      "Model: the function must be Y(Scope&, const X&) or Y(const Scope&, const X&), of a scope and one input: X "
      "and Y are named types, trees");
  using Input = Array;
  using Output = Array;
};
template <class C, class Y, class X>
struct ModelOf<Y (C::*)(Scope&, const X&) const> {
  using Input = X;
  using Output = Y;
};
template <class C, class Y, class X>
struct ModelOf<Y (C::*)(Scope&, const X&)> {
  using Input = X;
  using Output = Y;
};
template <class C, class Y, class X>
struct ModelOf<Y (C::*)(const Scope&, const X&) const> {
  using Input = X;
  using Output = Y;
};
template <class C, class Y, class X>
struct ModelOf<Y (C::*)(const Scope&, const X&)> {
  using Input = X;
  using Output = Y;
};

template <class Y, class X>
struct ModelOf<Y (*)(Scope&, const X&)> {
  using Input = X;
  using Output = Y;
};
template <class Y, class X>
struct ModelOf<Y (*)(const Scope&, const X&)> {
  using Input = X;
  using Output = Y;
};
template <class X, class Y>
struct ModelOf<Model<X, Y>> {  // a copy
  using Input = X;
  using Output = Y;
};

/// A function's type; that of the call operator where there is one alone.
template <class F>
struct CallOperator {
  using Type = F;
};
template <class F>
requires requires { &F::operator(); }
struct CallOperator<F> {
  using Type = decltype(&F::operator());
};
}  // namespace detail

template <class F>
Model(F) -> Model<typename detail::ModelOf<typename detail::CallOperator<F>::Type>::Input,
                  typename detail::ModelOf<typename detail::CallOperator<F>::Type>::Output>;

}  // namespace lockstep
