#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/grouped_instruction.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

bool updates(const Instruction& instruction) {
  return instruction.is<action::Run>() && instruction.provenance.phase == Phase::kUpdate;
}
bool is_member(const Instruction& instruction) {
  return updates(instruction) && instruction.operation()->is_groupable();
}

/// By place in the block: the places of the instructions that must run before, for those of the update. Values are
/// distinguished by their memory.
std::vector<std::vector<size_t>> predecessors(const Program& program, const std::vector<Instruction>& block) {
  struct Uses {
    std::optional<size_t> written;  // last writer
    std::vector<size_t> readers;    // readers since then
  };
  std::unordered_map<ValueId, Uses> uses;  // of what updates read or write, by root
  for (const Instruction& instruction : block) {
    const auto know = [&](ValueId id) { uses.try_emplace(program.root(id)); };
    if (!updates(instruction)) continue;
    for_each_read(instruction, know);
    for_each_written(instruction, know);
  }
  std::vector<std::vector<size_t>> before(block.size());
  for (size_t i = 0; i < block.size(); ++i) {
    const bool is_kept = updates(block[i]);
    const auto write = [&](ValueId id) {
      const auto found = uses.find(program.root(id));
      if (found == uses.end()) return;
      auto& [written, readers] = found->second;
      if (is_kept) {
        if (written) before[i].push_back(*written);
        before[i].insert(before[i].end(), readers.begin(), readers.end());
      }
      readers.clear();
      written = i;
    };
    for_each_read(block[i], [&](ValueId id) {
      const auto found = uses.find(program.root(id));
      if (found == uses.end()) return;
      auto& [written, readers] = found->second;
      if (is_kept && written) before[i].push_back(*written);
      readers.push_back(i);
    });
    for_each_written(block[i], write);
    if (block[i].is<action::Done>()) {  // from now on the results of collectives are available
      for (ValueId id : block[i].inputs) write(id);
    }
    std::erase(before[i], i);
  }
  return before;
}

/// Equal for instructions that one instruction can replace: operation, type, guard, and the copies
/// of the results.
using MemberKind = std::tuple<std::string_view, DType, ValueId, Copies>;
MemberKind kind_of(const Program& program, const Instruction& member) {
  return {member.operation()->name(), member.operation()->kernel_dtype(), member.guard,
          program.values[member.outputs[0]].copies()};
}

/// The bytes of results that have memory of their own.
int64_t new_bytes(const Program& program, const Instruction& instruction) {
  int64_t bytes = 0;
  for (ValueId id : instruction.outputs)
    if (program.values[id].alias == kNoValue) bytes += program.local_bytes(id);
  return bytes;
}

/// Takes the instructions in order; with the first member of a group it takes all members that can join.
class UpdateGroups {
 public:
  explicit UpdateGroups(Program& program)
      : program_(program),
        block_(program.instructions),
        before_(predecessors(program, block_)),
        state_(block_.size(), State::kWaits) {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (!is_member(block_[i])) continue;
      Waiting& waiting = waiting_[kind_of(program_, block_[i])];
      waiting.places.push_back(i);
      waiting.bytes.insert(new_bytes(program_, block_[i]));
    }
  }

  void run() {
    result_.reserve(block_.size());
    for (size_t i = 0; i < block_.size(); ++i) {
      if (state_[i] != State::kWaits) continue;
      if (!is_member(block_[i])) {
        take(i);
        continue;
      }
      const std::vector<size_t> members = group_of(i);
      result_.push_back(grouped_instruction(block_, members));
      for (size_t member : members) state_[member] = State::kTaken;
    }
    block_ = std::move(result_);
  }

 private:
  enum class State { kWaits, kJoins, kTaken };

  /// The members of one kind that have no group yet.
  struct Waiting {
    std::vector<size_t> places;  ///< ascending; may include places that have joined a group
    std::multiset<int64_t> bytes;
  };

  /// Member i and all members that can join its group.
  std::vector<size_t> group_of(size_t i) {
    std::vector<size_t> members;
    Waiting& waiting = waiting_.at(kind_of(program_, block_[i]));
    int64_t bytes = 0;
    const auto join = [&](size_t j, int64_t more) {
      members.push_back(j);
      state_[j] = State::kJoins;
      waiting.bytes.erase(waiting.bytes.find(new_bytes(program_, block_[j])));
      bytes += more;
    };
    join(i, new_bytes(program_, block_[i]));
    const auto is_full = [&] {
      return waiting.bytes.empty() || bytes + *waiting.bytes.begin() > kGroupBytes;
    };
    if (is_full()) return members;
    std::erase_if(waiting.places, [&](size_t j) { return state_[j] != State::kWaits; });
    for (const size_t j : waiting.places) {
      if (is_full()) break;
      std::set<size_t> needed;
      if (!can_come(j, needed)) continue;
      int64_t more = new_bytes(program_, block_[j]);
      for (size_t k : needed) more += new_bytes(program_, block_[k]);
      if (bytes + more > kGroupBytes) continue;
      for (size_t k : needed) take(k);
      join(j, more);
    }
    return members;
  }

  void take(size_t i) {
    result_.push_back(std::move(block_[i]));
    state_[i] = State::kTaken;
  }

  /// True if instruction i can run now, after those in `needed`; adds the missing ones to `needed`.
  bool can_come(size_t i, std::set<size_t>& needed) const {
    return std::ranges::all_of(before_[i], [&](size_t k) {
      if (state_[k] == State::kTaken || needed.contains(k)) return true;
      if (state_[k] == State::kJoins || !updates(block_[k]) || is_member(block_[k])) return false;
      if (!can_come(k, needed)) return false;
      needed.insert(k);
      return true;
    });
  }

  Program& program_;
  std::vector<Instruction>& block_;
  const std::vector<std::vector<size_t>> before_;
  std::vector<State> state_;
  std::map<MemberKind, Waiting> waiting_;
  std::vector<Instruction> result_;
};

}  // namespace

Program group_updates(Program program) {
  UpdateGroups(program).run();
  return program;
}

}  // namespace mtf
