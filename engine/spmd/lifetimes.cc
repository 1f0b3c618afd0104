#include "engine/spmd/lifetimes.h"

#include <algorithm>
#include <set>

#include "engine/spmd/instruction_uses.h"

namespace mtf {
namespace {

class LifetimeFinder {
 public:
  explicit LifetimeFinder(const Program& program) : program_(program), lifetimes_(program.values.size()) {
    block(program.instructions);
    for (const auto& [name, id] : program.outputs) touch(id, time_);
  }
  std::vector<Lifetime> take() { return std::move(lifetimes_); }

 private:
  void touch(ValueId id, int64_t time) {
    if (id == kNoValue) return;
    Lifetime& lifetime = lifetimes_[program_.root(id)];
    if (lifetime.begin < 0) lifetime.begin = time;
    lifetime.end = std::max(lifetime.end, time);
  }

  void block(const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      ++time_;
      if (instruction.is<action::Loop>()) {
        loop(instruction);
        continue;
      }
      for_each_read(instruction, [this](ValueId id) { touch(id, time_); });
      for_each_written(instruction, [this](ValueId id) { touch(id, time_); });
    }
  }

  void loop(const Instruction& repeat) {
    const int64_t begin = time_;
    block(repeat.body());
    const int64_t end = ++time_;
    std::set<ValueId> lasting;
    std::set<ValueId> written;
    for (const Instruction& instruction : repeat.body()) {
      for (ValueId id : reads(instruction)) {
        if (!written.contains(program_.root(id))) lasting.insert(program_.root(id));
      }
      for (ValueId id : writes(instruction)) {
        written.insert(program_.root(id));
        const bool repeated = instruction.is<action::Copy>() || instruction.is<action::Accumulate>() ||
                              instruction.is<action::Place>();
        if (repeated) lasting.insert(program_.root(id));
      }
    }
    for (ValueId id : lasting) {
      touch(id, begin);
      lifetimes_[id].begin = std::min(lifetimes_[id].begin, begin);
      touch(id, end);
    }
  }

  const Program& program_;
  std::vector<Lifetime> lifetimes_;
  int64_t time_ = 0;
};

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program) { return LifetimeFinder(program).take(); }

std::vector<int64_t> bytes_in_use(const Program& program, const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> bytes;
  const auto change = [&](int64_t time, int64_t by) {
    if (std::ssize(bytes) <= time) bytes.resize(static_cast<size_t>(time) + 1);
    bytes[static_cast<size_t>(time)] += by;
  };
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.values[id];
    const bool is_apart = value.storage != Value::Storage::kTemporary || value.on_host;
    if (is_apart || value.alias != kNoValue || lifetimes[id].begin < 0) continue;
    const int64_t of_value = aligned(program.local_bytes(id));
    change(lifetimes[id].begin, of_value);
    change(lifetimes[id].end + 1, -of_value);
  }
  for (size_t time = 1; time < bytes.size(); ++time) bytes[time] += bytes[time - 1];
  return bytes;
}

}  // namespace mtf
