#include "engine/train/model_parallel.h"

#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/partition_call.h>
#include <lockstep/transforms.h>

#include "engine/train/batch_rows.h"
#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"
#include "engine/train/trainable_parts.h"

namespace lockstep {
namespace train {
namespace {

/// Layouts that variables declare where the losses call their models: the leaf is the very array that a call was given.
std::map<std::string, Layout> declared_layouts(const detail::StepParts& parts, const Tree& trainable,
                                               const Tree& non_trainable, const Tree& rows) {
  std::map<std::string, Layout> declared;
  for (const Objective& objective : parts.objectives) {
    const auto listen = [&](const std::vector<Tree>& arguments) {
      const detail::DeclarationLog log;
      objective.loss(arguments[0], arguments[1], arguments[2]);
      for (const Tree& tree : {arguments[0], arguments[1]}) {
        const std::vector<std::string> paths = tree.paths();
        const std::vector<Array> leaves = tree.leaves();
        for (const detail::DeclaredLayout& variable : log.layouts()) {
          for (std::size_t i = 0; i < leaves.size(); ++i) {
            if (leaves[i].state() == variable.value.state()) declared.insert_or_assign(paths[i], variable.layout);
          }
        }
      }
      return Tree();
    };
    trace(listen, {trainable, non_trainable, rows});
  }
  return declared;
}

/// What the rows are padded to a multiple of. With contraction_blocks sums over rows are taken by so many blocks on every
/// mesh, so that a padded batch has one extent on all of them; rows without weights are as many on all of them anyway.
std::int64_t multiple_of_rows(const detail::StepParts& parts, const Tree& rows) {
  const std::int64_t blocks = batch_blocks(*parts.partitioned);
  const std::int64_t of_sums = parts.partitioned->contraction_blocks;
  const bool is_widened = of_sums > 1 && has_weights(rows, parts.options.weight);
  return (is_widened ? std::lcm(blocks, of_sums) : blocks) * parts.options.microbatches;
}

/// The batch as the partitioned function is given it: in microbatches, which are cut side by side, so that no row moves.
Tree batch_for_partition(const detail::StepParts& parts, const Tree& batch) {
  const RowWeights& weight = parts.options.weight;
  const Tree weighted = with_weights(filled(batch, weight), weight);
  const Tree rows = padded(weighted, weight, multiple_of_rows(parts, weighted));
  return in_parts(rows, parts.options.microbatches);
}

/// The dimension of such a batch's rows.
std::int64_t row_dimension(const detail::StepParts& parts) { return parts.options.microbatches == 1 ? 0 : 1; }

detail::LayoutOfLeaf layout_of_rows(const detail::StepParts& parts) {
  return [axes = batch_axes_of(*parts.partitioned), dim = row_dimension(parts)](const std::string&,
                                                                                const ArrayType& type) {
    return type.shape.rank() == 0 ? replicated : sharded(axes, dim);
  };
}

detail::LayoutOfLeaf replicated_leaves() {
  return [](const std::string&, const ArrayType&) { return replicated; };
}

detail::PartitionCall partition_of(const ModelParallelOptions& options) {
  return {.mesh = options.mesh,
          .in = {},
          .out = {},
          .is_explicit = options.is_explicit,
          .contraction_blocks = options.contraction_blocks,
          .keep_cut = true};
}

VariableLayouts layouts_of_variables(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                                     const Tree& batch) {
  const Tree rows = one_part(batch, parts.options.microbatches);
  return {*parts.partitioned, trainable, non_trainable, declared_layouts(parts, trainable, non_trainable, rows)};
}

/// `body` as the one replica that has the whole batch, its last argument.
Tree on_one_replica(const detail::StepParts& parts, const TreeFunction& body, const std::vector<Tree>& whole) {
  const Mesh one = data_mesh(1, devices("cpu:0"));
  std::vector<LeafLayouts> in(whole.size(), replicated);
  in.back() = sharded(batch_axis, row_dimension(parts));
  return detail::pmap_call(body, {.mesh = one, .in = in, .out = {replicated}}, whole, 1);
}

/// The step of one replica that has the whole batch, and how what goes in and out lies.
struct WholeStep {
  Tree batch;
  VariableLayouts layouts;
  TreeFunction function;
  detail::PartitionCall call;
};

WholeStep step_of_whole_batch(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  const auto state = from_tree<TrainState>(arguments[0]);
  Tree batch = batch_for_partition(parts, arguments[1]);
  VariableLayouts layouts = layouts_of_variables(parts, state.trainable, state.non_trainable, batch);
  TreeFunction function = [&parts, layouts](const std::vector<Tree>& whole) {
    const auto mapped = [&](const std::vector<Tree>& replica) {
      return to_tree(replica_step(parts, from_tree<TrainState>(replica[0]), replica[1], &layouts));
    };
    return on_one_replica(parts, mapped, whole);
  };
  detail::PartitionCall call = partition_of(*parts.partitioned);
  call.in.emplace_back(
      [layouts](const std::string& path, const ArrayType& type) { return layouts.of_state(path, type); });
  call.in.push_back(layout_of_rows(parts));
  call.out = {call.in[0], replicated_leaves()};
  return {std::move(batch), std::move(layouts), std::move(function), std::move(call)};
}

/// A state, or a part of one that has its paths, whose leaves lie as they are kept: cut where they are whole, resharded or
/// gathered where they lie otherwise.
Tree cut_as(const VariableLayouts& layouts, const Mesh& mesh, const Tree& state) {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) {
        return leaf.ndim() == 0 ? leaf : reshard(leaf, mesh, layouts.of_state(path, leaf.type()));
      },
      state);
}

}  // namespace

Tree partitioned_step(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  const WholeStep step = step_of_whole_batch(parts, arguments);
  const Tree state = cut_as(step.layouts, parts.partitioned->mesh, arguments[0]);
  return detail::partition_call(step.function, step.call, {state, step.batch});
}

Tree partitioned_evaluation(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  const Tree batch = batch_for_partition(parts, arguments[2]);
  const VariableLayouts layouts = layouts_of_variables(parts, arguments[0], arguments[1], batch);
  const TreeFunction function = [&](const std::vector<Tree>& whole) {
    const auto mapped = [&](const std::vector<Tree>& replica) {
      return to_tree(replica_evaluation(parts.objectives[0].loss, parts.options, layouts.read(replica[0]), replica[1],
                                        replica[2]));
    };
    return on_one_replica(parts, mapped, whole);
  };
  detail::PartitionCall call = partition_of(*parts.partitioned);
  for (const char* tree : {"trainable/", "non_trainable/"}) {
    call.in.emplace_back([&layouts, tree](const std::string& path, const ArrayType& type) {
      return layouts.of_state(tree + path, type);
    });
  }
  call.in.push_back(layout_of_rows(parts));
  call.out = {replicated_leaves()};
  const Tree state = cut_as(layouts, parts.partitioned->mesh,
                            Tree::dict({{"trainable", arguments[0]}, {"non_trainable", arguments[1]}}));
  return detail::partition_call(function, call, {state.at("trainable"), state.at("non_trainable"), batch});
}

LayoutPlan plan_of_step(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  LayoutPlan plan;
  const auto function = [&](const std::vector<Tree>& traced) {
    const WholeStep step = step_of_whole_batch(parts, traced);
    plan = detail::partition_plan(step.function, step.call, {traced[0], step.batch});
    plan.unused_rules = step.layouts.unused_rules();
    for (const std::string& pattern : plan.unused_rules) {
      plan.text += fmt::format("\"{}\" matches no variable\n", pattern);
    }
    return Tree();
  };
  trace(function, arguments);
  return plan;
}

TrainState cut_state(const detail::StepParts& parts, Tree trainable, Tree non_trainable) {
  const ModelParallelOptions& options = *parts.partitioned;
  const VariableLayouts layouts(options, trainable, non_trainable, {});
  const auto of_parameter = [&](const std::string& path, const ArrayType& type) {
    return layouts.of_state("trainable/" + path, type);
  };
  const auto of_slot = [&](const std::string& path, const ArrayType& type) {
    return layouts.of_state("optimizer/" + path, type);
  };
  const auto slots_of = [&](const std::vector<Tree>& whole) { return initial_slots(parts.objectives, whole[0]); };
  const detail::PartitionCall call{.mesh = options.mesh, .in = {of_parameter}, .out = {of_slot}, .keep_cut = true};
  const auto begin = [&](const std::vector<Tree>& given) {
    Tree state = cut_as(layouts, options.mesh, Tree::dict({{"trainable", given[0]}, {"non_trainable", given[1]}}));
    Tree slots = detail::partition_call(slots_of, call, {state.at("trainable")});
    return Tree::list({state.at("trainable"), state.at("non_trainable"), std::move(slots)});
  };
  const Tree made = detail::JitCache().call(begin, {std::move(trainable), std::move(non_trainable)});
  const std::span<const Tree> parts_of_state = made.items();
  TrainState state{parts_of_state[0], parts_of_state[1], parts_of_state[2], array<std::int64_t>(0)};
  if (options.loss_scale) state.loss_scale = loss_scale_state(*options.loss_scale);
  return state;
}

}  // namespace train

namespace {

detail::StepParts parts_of(std::vector<Objective> objectives, ModelParallelOptions options) {
  train::check(options);
  DataParallelOptions of_one{.devices = devices("cpu:0"),
                             .shards = 1,
                             .microbatches = options.microbatches,
                             .debug = options.debug,
                             .precision = options.precision,
                             .weight = options.weight,
                             .loss_scale = options.loss_scale};
  return {std::move(objectives), std::move(of_one), std::make_shared<const ModelParallelOptions>(std::move(options))};
}

}  // namespace

TrainStep model_parallel(std::vector<Objective> objectives, ModelParallelOptions options) {
  return TrainStep(parts_of(std::move(objectives), std::move(options)));
}

TrainStep model_parallel(StepLoss loss, optim::GradientTransformation optimizer, ModelParallelOptions options) {
  Objective only{.name = {}, .loss = std::move(loss), .optimizers = {{"", std::move(optimizer)}}};
  return model_parallel(std::vector<Objective>{std::move(only)}, std::move(options));
}

EvaluateStep model_parallel_evaluation(StepLoss loss, ModelParallelOptions options) {
  return EvaluateStep(parts_of({Objective{.name = {}, .loss = std::move(loss), .optimizers = {}}}, std::move(options)));
}

LayoutPlan layout_plan(const TrainStep& step, const TrainState& state, const Tree& batch) {
  const detail::StepParts& parts = step.parts();
  if (!parts.partitioned) {
    throw ValueError(
        "[layout_plan] the step is one of data_parallel, whose collectives stand in the program; read "
        "step.program(state, "
        "batch), or make the step by model_parallel");
  }
  const Tree rows = train::without_empty_weights(batch, parts.options.weight);
  train::check(rows, parts.options.weight);
  return train::plan_of_step(parts, {to_tree(state), rows});
}

template class detail::OutOfLine<std::optional<DimensionAxes>>;

}  // namespace lockstep
