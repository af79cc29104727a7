#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/model.h>
#include <lockstep/tree.h>

namespace lockstep {

/// How the loop over the layers is written out.
struct ScanLayersOptions {
  std::int64_t unroll = 1;  ///< How many layers the program has one after the other: speed alone.
};

/// x = body(layer i, x) for n layers of one kind, as one loop: the program and its compilation do not grow with n. The
/// layers' variables lie stacked below the scope, [n, ...]; slice i is drawn, and draws, as the layer in scope["i"] of
/// a loop over layers would, so both forms have the same values, bit for bit. body(const Scope&, const X&) -> X may
/// itself contain transforms: `remat` around its layers keeps x alone for the backward pass. Throws StateError,
/// DtypeError or ShapeError where the body returns another type than it takes, ValueError for n < 1. (Flax's nn.scan)
///
///     x = ls::scan_layers(s["blocks"], 12, [](const ls::Scope& block, const ls::Array& h) {
///       return ls::remat([&](const ls::Array& v) { return transformer_block(block, v); })(h);
///     }, x);
template <class F, class X>
X scan_layers(const Scope& scope, std::int64_t n, const F& body, const X& x, const ScanLayersOptions& options = {}) {
  const auto on_trees = [&body](const Scope& layer, const Tree& tree) {
    return to_tree(X(body(layer, from_tree<X>(tree))));
  };
  return from_tree<X>(detail::scan_layers(scope, n, on_trees, to_tree(x), options.unroll));
}

/// A tree whose layers lie at "<path>/0", "<path>/1", ... in the form of `scan_layers`: stacked at "<path>". Of
/// parameters, state, gradients or an optimizer's slots, whose path starts where their copy of the parameters does. A
/// tree that holds nothing at the path is returned as it is (layers without state). Throws StateError where the layers
/// differ, or are not numbered from 0.
LOCKSTEP_API Tree stack_layers(const Tree& tree, std::string_view path);
/// The other way. Throws StateError where the leaves at the path have not one first extent.
LOCKSTEP_API Tree unstack_layers(const Tree& tree, std::string_view path);

}  // namespace lockstep
