#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// True if the results depend on nothing but the inputs: not on the iteration.
bool depends_on_inputs_alone(const Instruction& instruction) {
  if (instruction.is_collective() || instruction.is<action::Slice>()) return true;
  if (!instruction.is<action::Run>()) return false;
  const std::optional<ElementwiseStep> step = instruction.operation()->elementwise_step();
  return step && step->kind != ElementwiseStep::Kind::kDropout;
}

class LoopSends {
 public:
  LoopSends(const Program& program, std::vector<Instruction>& body) : program_(program), body_(body) {
    for (size_t i = 0; i < body.size(); ++i) {
      for (ValueId id : body[i].outputs) maker_[program.root(id)] = i;
    }
  }

  /// Takes out of the body what sends values that are the same in all iterations, with what makes them.
  std::vector<Instruction> take() {
    std::unordered_set<size_t> taken;
    for (size_t i = 0; i < body_.size(); ++i) {
      std::unordered_set<size_t> needed;
      if (body_[i].collective<action::Send>() && is_constant(i, needed)) taken.merge(needed);
    }
    std::vector<Instruction> before, rest;
    for (size_t i = 0; i < body_.size(); ++i)
      (taken.contains(i) ? before : rest).push_back(std::move(body_[i]));
    body_ = std::move(rest);
    return before;
  }

 private:
  /// True if the results of instruction `i` are the same in all iterations; `needed` receives what makes them.
  bool is_constant(size_t i, std::unordered_set<size_t>& needed) const {
    if (!depends_on_inputs_alone(body_[i])) return false;
    if (!needed.insert(i).second) return true;  // what is not the same has ended the search
    return std::ranges::all_of(body_[i].inputs, [&](ValueId id) {
      const auto made = maker_.find(program_.root(id));
      return made == maker_.end() || is_constant(made->second, needed);
    });
  }

  const Program& program_;
  std::vector<Instruction>& body_;
  std::unordered_map<ValueId, size_t> maker_;  ///< by root
};

}  // namespace

Program hoist_sends(Program program) {
  std::vector<Instruction> result;
  for (Instruction& instruction : program.instructions) {
    if (auto* loop = instruction.as<action::Loop>()) {
      for (Instruction& sent : LoopSends(program, loop->body).take()) result.push_back(std::move(sent));
    }
    result.push_back(std::move(instruction));
  }
  program.instructions = std::move(result);
  return program;
}

}  // namespace mtf
