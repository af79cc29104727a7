#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>

// Layers whose work is cut along a mesh axis of its own, by the collectives of parallel.h: sequences, experts, stages. Each
// is called inside a map (pmap, or a vmap with an axis name) and means what it means where the axis has one replica. All
// are functions of arrays, to be used in any model, and can be differentiated, batched, computed again and looped over.
namespace lockstep {

// ---- sequences -------------------------------------------------------------------------------------------------------

/// Attention over a sequence that is cut along a mesh axis.
struct SequenceAttentionOptions {
  std::string axis;                  ///< That cuts dimension 1 of query, key and value; must be given.
  bool is_causal = false;            ///< Position t of the whole sequence sees positions 0 to t.
  std::optional<double> scale = {};  ///< Of the logits; 1 / sqrt(H) where there is none.
  /// bool[B, S], of this replica's keys: true where a key is seen.
  std::optional<Array> key_mask = {};
};

/// dot_product_attention of the whole sequence, of which each replica along the axis has a block of equal length: query
/// [B, T, N, H], key and value [B, S, K, H], N a multiple of K; the result is this replica's block, [B, T, N, H].
/// Blocks of keys and values go round a ring (ppermute); what a replica has summed is merged with each in turn, in one
/// order, scaled by the largest logit so far. No replica holds logits of more than T x S; the backward pass computes
/// them again, and keeps the blocks of keys and values that came by. A query that sees no key takes the mean of all
/// values. Narrow floats are computed in float32. Liu, Zaharia and Abbeel 2023; Milakov and Gimelshein 2018. Throws
/// MeshError for an axis that is not bound or does not cut an operand, ShapeError or DtypeError for operands that do
/// not fit.
LOCKSTEP_API Array ring_attention(const Array& query, const Array& key, const Array& value,
                                  const SequenceAttentionOptions& options);

/// The same by two exchanges (all_to_all): for the attention each replica has the whole sequence of some heads. The
/// replicas must divide both numbers of heads (else ShapeError). Errors as of ring_attention. Jacobs et al. 2023.
LOCKSTEP_API Array all_to_all_attention(const Array& query, const Array& key, const Array& value,
                                        const SequenceAttentionOptions& options);

// ---- experts ---------------------------------------------------------------------------------------------------------

/// How tokens are given to experts.
struct MixtureOptions {
  std::string axis = {};         ///< That cuts the experts, and the batch too; empty: each replica has all experts.
  std::int64_t top_k = 2;        ///< Experts a token is given to.
  double capacity_factor = 1.5;  ///< An expert has room for so many times a row's fair share of tokens.
  /// bool[N, T], true where a token counts; the others are given to nobody and get 0.
  std::optional<Array> mask = {};
};

/// What a mixture of experts gives for rows of tokens.
struct MixtureResult {
  Array y;  ///< [N, T, features of the experts' results]
  /// f32[N] or wider: experts * sum_e f_e p_e, with f_e the share of a row's tokens whose first choice is e, p_e the mean
  /// of their probabilities; 1 where experts are used alike. A loss term: `0.01 * Loss(weighted(load_balance, rows))`.
  Array load_balance;
  Array dropped;  ///< f32[N] or wider: share of a row's choices that found no room.
};
LOCKSTEP_TREE(MixtureResult, y, load_balance, dropped);

namespace detail {
/// [experts of this replica, tokens, features] -> the same of the results.
using ExpertFunction = std::function<Array(const Array& tokens)>;
/// With all of this replica's experts in one function.
LOCKSTEP_API MixtureResult mixture_of_experts(const Array& x, const Array& logits, const Tree& experts,
                                              const ExpertFunction& function, const MixtureOptions& options);
}  // namespace detail

/// A sum over the top_k experts of each token, weighted by the router's probabilities (softmax of `logits` [N, T,
/// experts]; divided by their sum where top_k > 1). x is [N, T, features]. `expert(parameters of one, tokens [R,
/// features]) -> [R, features']` is mapped over dimension 0 of all leaves of `experts`: those of this replica, block i
/// of replica i. Each row is routed for itself: an expert takes ceil(capacity_factor * top_k * T / experts) of its
/// tokens, first choices before second ones and then in order, and what finds no room adds nothing. So the result does
/// not depend on how rows are cut. Tokens travel to their experts and back by all_to_all. Room that is not used is
/// filled with a row's first token that counts, so that an expert sees no other. Lepikhin et al. 2021; Fedus, Zoph and
/// Shazeer 2022. Throws ShapeError where shapes do not fit, ValueError for top_k or capacity_factor out of range,
/// MeshError where x does not vary along the axis.
template <class F, class Params>
MixtureResult mixture_of_experts(const Array& x, const Array& logits, const Params& experts, const F& expert,
                                 const MixtureOptions& options = {}) {
  const auto all = [&](const Array& tokens) -> Array { return vmap(expert)(experts, tokens); };
  return detail::mixture_of_experts(x, logits, to_tree(experts), all, options);
}

// ---- stages ----------------------------------------------------------------------------------------------------------

/// Stages of a model along a mesh axis.
struct PipelineOptions {
  std::string axis;               ///< Replica i is stage i; must be given.
  std::int64_t microbatches = 1;  ///< Divides the rows. The more, the less of the time stages wait.
};

namespace detail {
/// With a stage of trees.
LOCKSTEP_API Tree pipeline(const std::function<Tree(const Tree&)>& stage, const Tree& x,
                           const PipelineOptions& options);
}  // namespace detail

/// stage n-1 of ... of stage 0 of x, for n replicas along an axis: `stage`, X -> X of the same types, is called with one
/// microbatch of rows (dimension 0 of every leaf) and what it captures, parameters cut along the axis. x is the same on all
/// replicas of the axis, and so is the result. All microbatches go through one after the other, each stage a step
/// behind the one before (a scan over ppermute of microbatches + n - 1 steps, of which a stage waits n - 1); the
/// derivative runs the steps backwards. `remat` of the stage keeps its inputs alone. Steps in which a stage waits
/// compute on real rows, whose results are left out. A stage must not draw random numbers or mix rows. Huang et al.
/// 2019. Throws ShapeError where microbatches do not divide the rows or a stage changes types, MeshError for an axis
/// that is not bound and for an x that varies along it.
template <class F, class X>
X pipeline(const F& stage, const X& x, const PipelineOptions& options) {
  const auto on_trees = [&stage](const Tree& rows) { return to_tree(X(stage(from_tree<X>(rows)))); };
  return from_tree<X>(detail::pipeline(on_trees, to_tree(x), options));
}

}  // namespace lockstep
