#include "trainer/explain/schedule.h"

#include <algorithm>
#include <unordered_map>

namespace mtf {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const Program& program) : program_(program) {}

  std::vector<ScheduleItem> block(const std::vector<Instruction>& instructions) {
    std::vector<ScheduleItem> items;
    for (const Instruction& instruction : instructions) {
      if (instruction.is_collective()) {
        start(instruction, items);
      } else if (instruction.is<action::Done>()) {
        wait(instruction, items);
      } else if (instruction.is<action::Loop>()) {
        items.push_back(ScheduleLoop{instruction.count(), block(instruction.body())});
      } else {
        work(instruction, items);
      }
    }
    return items;
  }

 private:
  void start(const Instruction& instruction, std::vector<ScheduleItem>& items) {
    const auto& communicate = *instruction.as<action::Communicate>();
    const int64_t message = next_message_++;
    for (ValueId id : instruction.outputs) messages_[id] = message;
    items.push_back(ScheduledStart{message, name_of(instruction), communicate.axes,
                                   instruction.provenance.path, instruction.provenance.phase,
                                   bytes_sent(program_, instruction)});
    if (!communicate.started) items.push_back(ScheduledWait{{message}});
  }

  void wait(const Instruction& instruction, std::vector<ScheduleItem>& items) {
    ScheduledWait wait;
    for (ValueId id : instruction.inputs) {
      const auto made = messages_.find(id);
      if (made == messages_.end()) continue;
      if (std::ranges::find(wait.messages, made->second) == wait.messages.end())
        wait.messages.push_back(made->second);
    }
    if (!wait.messages.empty()) items.push_back(std::move(wait));
  }

  /// Adds the work to the stretch before it, if that is of the same layer and phase.
  void work(const Instruction& instruction, std::vector<ScheduleItem>& items) {
    const Work done = *work_of(program_, instruction);
    const std::string& path = instruction.provenance.path;
    const Phase phase = instruction.provenance.phase;
    auto* last = items.empty() ? nullptr : std::get_if<ScheduledWork>(&items.back());
    if (last == nullptr || last->layer != path || last->phase != phase)
      last = &std::get<ScheduledWork>(items.emplace_back(ScheduledWork{path, phase, 0, 0}));
    last->flops += done.flops;
    if (!has_flops(done.kind)) last->bytes += done.bytes;
  }

  const Program& program_;
  int64_t next_message_ = 0;  ///< counts as program_facts.h does
  std::unordered_map<ValueId, int64_t> messages_;
};

}  // namespace

std::vector<ScheduleItem> schedule_of(const Program& program) {
  return Scheduler(program).block(program.instructions);
}

}  // namespace mtf
