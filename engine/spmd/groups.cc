#include "engine/spmd/groups.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "engine/ops/grouped.h"
#include "engine/spmd/passes.h"

namespace mtf {
namespace {

/// By place in the block: the places whose instructions must run before. Values are told apart by their
/// memory.
std::vector<std::vector<size_t>> predecessors(const Program& program, const std::vector<Instruction>& block) {
  std::vector<std::vector<size_t>> before(block.size());
  std::unordered_map<ValueId, size_t> written;               // last, by root
  std::unordered_map<ValueId, std::vector<size_t>> readers;  // since then
  for (size_t i = 0; i < block.size(); ++i) {
    const auto write = [&](ValueId id) {
      const ValueId root = program.root(id);
      if (const auto last = written.find(root); last != written.end()) before[i].push_back(last->second);
      before[i].insert(before[i].end(), readers[root].begin(), readers[root].end());
      readers[root].clear();
      written[root] = i;
    };
    for (ValueId id : reads(block[i])) {
      const ValueId root = program.root(id);
      if (const auto last = written.find(root); last != written.end()) before[i].push_back(last->second);
      readers[root].push_back(i);
    }
    for (ValueId id : writes(block[i])) write(id);
    if (block[i].kind == InstructionKind::kDone) {  // what collectives make is there from now on
      for (ValueId id : block[i].inputs) write(id);
    }
    std::erase(before[i], i);
  }
  return before;
}

bool updates(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kLocal && instruction.provenance.phase == Phase::kUpdate;
}
bool is_member(const Instruction& instruction) {
  return updates(instruction) && is_groupable(*instruction.operation);
}

bool are_alike(const Program& program, const Instruction& a, const Instruction& b) {
  return a.operation->name() == b.operation->name() &&
         a.operation->kernel_dtype() == b.operation->kernel_dtype() && a.guard == b.guard &&
         program.values[a.outputs[0]].varies == program.values[b.outputs[0]].varies;
}

/// Of results that have memory of their own.
int64_t new_bytes(const Program& program, const Instruction& instruction) {
  int64_t bytes = 0;
  for (ValueId id : instruction.outputs)
    if (program.values[id].alias == kNoValue) bytes += program.local_bytes(id);
  return bytes;
}

/// "optimizer" of "optimizer/a/kernel" and "optimizer/b".
std::string common_scope(const std::string& a, const std::string& b) {
  const std::string first = a + '/', second = b + '/';
  const auto same = static_cast<size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  const size_t end = first.substr(0, same).rfind('/');
  return end == std::string::npos ? std::string() : first.substr(0, end);
}

Instruction grouped(const std::vector<Instruction>& block, const std::vector<size_t>& members) {
  Instruction result = block[members[0]];
  if (members.size() == 1) return result;
  Grouped::Members operations = {result.operation};
  for (size_t i = 1; i < members.size(); ++i) {
    const Instruction& member = block[members[i]];
    result.inputs.insert(result.inputs.end(), member.inputs.begin(), member.inputs.end());
    result.outputs.insert(result.outputs.end(), member.outputs.begin(), member.outputs.end());
    result.provenance.path = common_scope(result.provenance.path, member.provenance.path);
    operations.push_back(member.operation);
  }
  result.operation = std::make_shared<Grouped>(std::move(operations));
  return result;
}

/// Takes instructions in their order; with the first of a group all that can join it.
class UpdateGroups {
 public:
  explicit UpdateGroups(Program& program)
      : program_(program),
        block_(program.instructions),
        before_(predecessors(program, block_)),
        state_(block_.size(), State::kWaits) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (state_[i] != State::kWaits) continue;
      if (!is_member(block_[i])) {
        take(i);
        continue;
      }
      std::vector<size_t> members = {i};
      state_[i] = State::kJoins;
      int64_t bytes = new_bytes(program_, block_[i]);
      for (size_t j = i + 1; j < block_.size(); ++j) {
        if (state_[j] != State::kWaits || !is_member(block_[j]) || !are_alike(program_, block_[i], block_[j]))
          continue;
        std::set<size_t> needed;
        if (!can_come(j, needed)) continue;
        int64_t more = new_bytes(program_, block_[j]);
        for (size_t k : needed) more += new_bytes(program_, block_[k]);
        if (bytes + more > kGroupBytes) continue;
        bytes += more;
        for (size_t k : needed) take(k);
        members.push_back(j);
        state_[j] = State::kJoins;
      }
      result_.push_back(grouped(block_, members));
      for (size_t member : members) state_[member] = State::kTaken;
    }
    block_ = std::move(result_);
  }

 private:
  enum class State { kWaits, kJoins, kTaken };

  void take(size_t i) {
    result_.push_back(block_[i]);
    state_[i] = State::kTaken;
  }

  /// Instruction i can run now, behind those in `needed`, to which it adds.
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
  std::vector<Instruction> result_;
};

}  // namespace

Program group_updates(Program program) {
  UpdateGroups(program).run();
  return program;
}

}  // namespace mtf
