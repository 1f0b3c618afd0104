#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/base/check.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/pipeline_order.h"
#include "engine/spmd/passes/rewrite_blocks.h"
#include "engine/spmd/work.h"

namespace mtf {
namespace {

constexpr double kLeastCost = 1e4;  ///< least FLOPs that a chunk counts for

/// Takes the microbatches of one loop apart.
class PipelinedLoop {
 public:
  PipelinedLoop(Program& program, const Pipeline& pipeline, const PipelineCosts& costs,
                const action::Loop& loop)
      : program_(program),
        pipeline_(pipeline),
        costs_(costs),
        loop_(loop),
        chunks_(static_cast<int>(pipeline.placed->stages.size())) {
    find_places();
    find_values();
  }

  /// Appends the instructions of all microbatches, and leaves room for `more`.
  void run(std::vector<Instruction>& result, size_t more) {
    const std::vector<std::vector<size_t>> members = members_of_places();
    std::vector<std::vector<double>> ends(
        members.size());  // when each member ends, from the beginning of its place
    WorkFinder works(program_);
    std::vector<ChunkMoments> moments(pipeline_.placed->stages.size());
    for (size_t place = 0; place < members.size(); ++place) {
      double moment = 0;
      for (const size_t i : members[place]) ends[place].push_back(moment += cost(works, loop_.body[i]));
      const int chunk = chunk_of(static_cast<int>(place));
      moments[static_cast<size_t>(chunk)][is_backward(static_cast<int>(place))] =
          std::max(moment, kLeastCost);
    }
    struct Placed {
      double moment;
      size_t member;
      int64_t microbatch;
    };
    std::vector<Placed> all;
    for (const PipelineTask& task :
         pipeline_order(pipeline_.placed->stages, loop_.count, pipeline_.schedule, moments)) {
      const auto place = static_cast<size_t>(place_of(task.chunk, task.is_backward));
      for (size_t k = 0; k < members[place].size(); ++k)
        all.push_back({task.begin + ends[place][k], members[place][k], task.microbatch});
    }
    std::ranges::stable_sort(all, {}, &Placed::moment);
    add_values();
    result.reserve(result.size() + all.size() + more);
    for (const Placed& placed : all)
      result.push_back(in_iteration(loop_.body[placed.member], placed.microbatch));
  }

 private:
  /// Places count the chunks of the forward pass, then those of the backward pass in its order.
  int place_of(int chunk, bool is_backward) const { return is_backward ? 2 * chunks_ - 1 - chunk : chunk; }
  int chunk_of(int place) const { return place < chunks_ ? place : 2 * chunks_ - 1 - place; }
  bool is_backward(int place) const { return place >= chunks_; }

  /// In FLOPs of products.
  double cost(WorkFinder& works, const Instruction& instruction) const {
    if (instruction.collective<action::Send>()) return 0;
    const std::optional<Work> work = works.of(instruction);
    if (!work) return 0;
    return instruction.is_collective() ? costs_.sent_byte * work->bytes
                                       : work->flops * work->computed + costs_.read_byte * work->bytes;
  }

  /// Gives each instruction the place of its chunk; what is sent, the place where it is made; what all positions compute, the
  /// first place that needs it.
  void find_places() {
    const std::vector<Instruction>& body = loop_.body;
    places_.assign(body.size(), kNone);
    for (size_t i = 0; i < body.size(); ++i) {
      for (ValueId id : body[i].outputs) makers_[program_.root(id)] = i;
    }
    for (size_t i = 0; i < body.size(); ++i) {
      const Provenance& from = body[i].provenance;
      const int made = latest_input(body[i]);
      if (body[i].collective<action::Send>()) {
        places_[i] = made;
      } else if (from.chunk >= 0) {  // a sum over microbatches belongs to no phase: it follows its term
        places_[i] = std::max(made, place_of(from.chunk, from.phase != Phase::kForward));
      }
    }
    for (size_t i = body.size(); i-- > 0;) {
      if (places_[i] == kNone) continue;
      need(body[i], places_[i]);
    }
    for (size_t i = 0; i < body.size(); ++i) {
      if (places_[i] == kNone) places_[i] = std::max(0, latest_input(body[i]));
      MTF_CHECK(latest_input(body[i]) <= places_[i], "`{}` needs what a later part of the pipeline makes",
                to_string(program_, body[i]));
    }
  }

  /// Moves what makes the operands, where it has no place yet or a later one, to `place`.
  void need(const Instruction& instruction, int place) {
    for (ValueId id : instruction.inputs) {
      const auto made = makers_.find(program_.root(id));
      if (made == makers_.end()) continue;
      const Instruction& maker = loop_.body[made->second];
      if (maker.provenance.chunk >= 0 || maker.collective<action::Send>()) continue;
      int& known = places_[made->second];
      if (known != kNone && known <= place) continue;
      known = place;
      need(maker, place);
    }
  }

  int latest_input(const Instruction& instruction) const {
    int latest = kNone;
    for (ValueId id : instruction.inputs) {
      const auto made = makers_.find(program_.root(id));
      if (made != makers_.end() && &loop_.body[made->second] != &instruction)
        latest = std::max(latest, places_[made->second]);
    }
    return latest;
  }

  std::vector<std::vector<size_t>> members_of_places() const {
    std::vector<std::vector<size_t>> members(static_cast<size_t>(2 * chunks_));
    for (size_t i = 0; i < places_.size(); ++i) members[static_cast<size_t>(places_[i])].push_back(i);
    return members;
  }

  /// Finds the values that each microbatch has for itself: sums and whole batches outlast it.
  void find_values() {
    std::vector<bool> own(program_.values.size());  // by root
    for (const Instruction& instruction : loop_.body) {
      MTF_CHECK(!instruction.is<action::Copy>() && !instruction.is<action::Loop>(),
                "a pipelined loop carries nothing from one microbatch to the next");
      if (instruction.is<action::Accumulate>() || instruction.is<action::Place>()) continue;
      for (ValueId id : instruction.outputs) own[program_.root(id)] = true;
    }
    numbers_.assign(program_.values.size(), kNone);
    for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) {
      if (!own[program_.root(id)]) continue;
      numbers_[id] = static_cast<int>(own_.size());
      own_.push_back(id);
    }
  }

  /// Adds the values of all microbatches but the first one, which has those of the loop.
  void add_values() {
    first_ = static_cast<ValueId>(program_.values.size());
    const size_t more = own_.size() * static_cast<size_t>(loop_.count);  // later passes add some, too
    program_.values.reserve(program_.values.size() + more);
    for (int64_t iteration = 1; iteration < loop_.count; ++iteration) {
      for (const ValueId id : own_) {
        Value copy = program_.values[id];
        if (copy.name == std::to_string(id)) copy.name.clear();
        if (copy.alias != kNoValue) copy.alias = of_iteration(copy.alias, iteration);
        program_.add_value(std::move(copy));
      }
    }
  }

  ValueId of_iteration(ValueId id, int64_t iteration) const {
    if (id == kNoValue || iteration == 0 || numbers_[id] == kNone) return id;
    return first_ + static_cast<ValueId>((iteration - 1) * std::ssize(own_)) + numbers_[id];
  }

  Instruction in_iteration(const Instruction& instruction, int64_t iteration) const {
    Instruction result = instruction;
    result.iteration = iteration;
    for (ValueId& id : result.inputs) id = of_iteration(id, iteration);
    for (ValueId& id : result.outputs) id = of_iteration(id, iteration);
    result.guard = of_iteration(result.guard, iteration);
    return result;
  }

  static constexpr int kNone = -1;

  Program& program_;
  const Pipeline& pipeline_;
  const PipelineCosts& costs_;
  const action::Loop& loop_;
  const int chunks_;
  std::vector<int> places_;                     ///< by instruction of the body
  std::unordered_map<ValueId, size_t> makers_;  ///< instruction of the body, by root
  std::vector<ValueId> own_;                    ///< values that each microbatch has for itself, ascending
  std::vector<int> numbers_;                    ///< by value: its index in own_
  ValueId first_ = kNoValue;                    ///< the first value of the second microbatch
};

bool is_pipelined(const action::Loop& loop) {
  return std::ranges::any_of(
      loop.body, [](const Instruction& instruction) { return instruction.provenance.chunk >= 0; });
}

}  // namespace

Program pipeline_loops(Program program, const Pipeline& pipeline, const PipelineCosts& costs) {
  std::vector<Instruction> before = std::exchange(program.instructions, {}), result;
  for (Instruction& instruction : before) {
    const auto* loop = instruction.as<action::Loop>();
    if (loop == nullptr || !is_pipelined(*loop)) {
      result.push_back(std::move(instruction));
      continue;
    }
    PipelinedLoop(program, pipeline, costs, *loop).run(result, before.size());
  }
  program.instructions = std::move(result);
  return program;
}

}  // namespace mtf
