#include "engine/ir/control_flow.h"

#include <string>
#include <string_view>

#include <lockstep/error.h>

namespace lockstep::ir {

namespace {

std::shared_ptr<const AttrObject> object(const FunctionPtr& function) { return function; }

std::int64_t at_least(const Attrs& attrs, std::string_view name, std::int64_t least) {
  const auto value = attrs.get<std::int64_t>(name);
  if (value < least) {
    throw IrError("attribute " + std::string(name) + " is " + std::to_string(value) + "; expected at least " +
                  std::to_string(least));
  }
  return value;
}

std::size_t checked_count(const Attrs& attrs, std::string_view name, std::size_t most) {
  const auto value = static_cast<std::size_t>(at_least(attrs, name, 0));
  if (value > most) {
    throw IrError("attribute " + std::string(name) + " is " + std::to_string(value) + ", but the sub-function has " +
                  std::to_string(most) + " inputs left for them");
  }
  return value;
}

std::string branch_name(std::size_t i) { return "branch" + std::to_string(i); }

}  // namespace

Scan Scan::of(const Attrs& attrs) {
  Scan scan;
  scan.body = sub_function(attrs, "body");
  scan.length = at_least(attrs, "length", 0);
  scan.consts = checked_count(attrs, "consts", scan.body->inputs().size());
  scan.carries = checked_count(attrs, "carries", scan.body->inputs().size() - scan.consts);
  if (scan.carries > scan.body->outputs().size()) {
    throw IrError("scan: " + std::to_string(scan.carries) + " carries for a body of " +
                  std::to_string(scan.body->outputs().size()) + " results; the body returns the next carry first");
  }
  scan.reverse = attrs.get<bool>("reverse");
  scan.unroll = at_least(attrs, "unroll", 1);
  return scan;
}

Attrs Scan::attrs() const {
  return {{"body", object(body)},
          {"length", length},
          {"consts", static_cast<std::int64_t>(consts)},
          {"carries", static_cast<std::int64_t>(carries)},
          {"reverse", reverse},
          {"unroll", unroll}};
}

WhileLoop WhileLoop::of(const Attrs& attrs) {
  WhileLoop loop;
  loop.cond = sub_function(attrs, "cond");
  loop.body = sub_function(attrs, "body");
  loop.cond_consts = checked_count(attrs, "cond_consts", loop.cond->inputs().size());
  loop.body_consts = checked_count(attrs, "body_consts", loop.body->inputs().size());
  return loop;
}

Attrs WhileLoop::attrs() const {
  return {{"cond", object(cond)},
          {"body", object(body)},
          {"cond_consts", static_cast<std::int64_t>(cond_consts)},
          {"body_consts", static_cast<std::int64_t>(body_consts)}};
}

Cond Cond::of(const Attrs& attrs) {
  Cond cond;
  while (attrs.has(branch_name(cond.branches.size()))) {
    cond.branches.push_back(sub_function(attrs, branch_name(cond.branches.size())));
  }
  if (cond.branches.empty()) throw IrError("cond has no branch; expected attributes branch0, branch1, ...");
  return cond;
}

Attrs Cond::attrs() const {
  Attrs attrs;
  for (std::size_t i = 0; i < branches.size(); ++i) attrs = attrs.with(branch_name(i), object(branches[i]));
  return attrs;
}

}  // namespace lockstep::ir
