#include "trainer/costs/schedule.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <unordered_map>

#include "engine/runtime/collective_of.h"
#include "trainer/costs/local_work.h"

namespace mtf {
namespace {

class Scheduler {
 public:
  Scheduler(const Program& program, const CostModel& model)
      : program_(program), model_(model), local_(program, model), lanes_(model.placement().mesh) {}

  std::vector<ScheduleItem> block(const std::vector<Instruction>& instructions) {
    std::vector<ScheduleItem> items;
    items.reserve(instructions.size());
    for (size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (instruction.is_collective()) {
        start(instruction, items);
      } else if (instruction.is<action::Transfer>()) {
        transfer(instruction, items);
      } else if (instruction.is<action::Done>()) {
        wait(instruction, items);
      } else if (instruction.is<action::Loop>()) {
        items.push_back(ScheduleLoop{instruction.count(), block(instruction.body())});
      } else {
        i = segment(instructions, i, items) - 1;
      }
    }
    return items;
  }

 private:
  Copies computed(const Instruction& instruction) const {
    return computed_over(program_, instruction, model_.placement().replicates);
  }
  static bool is_local(const Instruction& instruction) {
    return !instruction.is_collective() && !instruction.is<action::Transfer>() &&
           !instruction.is<action::Done>() && !instruction.is<action::Loop>();
  }

  /// Adds the local instructions from `begin` on that run over the same mesh dimensions; returns where they end.
  size_t segment(const std::vector<Instruction>& instructions, size_t begin,
                 std::vector<ScheduleItem>& items) {
    const Copies over = computed(instructions[begin]);
    const int64_t copies = model_.count(over);
    std::vector<ProcessWork> works;
    size_t end = begin;
    for (; end < instructions.size() && is_local(instructions[end]) && computed(instructions[end]) == over;
         ++end) {
      const ProcessWork work = local_.of(instructions[end], copies);
      if (!works.empty() && works.front().calls != work.calls) break;
      works.push_back(work);
    }
    model_.segment(works, times_);
    const std::optional<int> lane = lanes_.of(over.pin);
    for (size_t i = 0; i < works.size(); ++i) {
      const auto& [work, cold, calls] = works[i];
      // What a position does, also where a call does it for several.
      const double share = static_cast<double>(calls) / static_cast<double>(copies);
      const Provenance& from = instructions[begin + i].provenance;
      items.push_back(ScheduledWork{from.scope,
                                    from.phase,
                                    work.kind,
                                    has_flops(work.kind) ? share * work.flops : 0,
                                    share * work.bytes,
                                    times_[i],
                                    {},
                                    lane});
    }
    return end;
  }

  /// Layers repeat the same collectives, so each distinct request is examined only once.
  CollectiveTime time_of(const Instruction& instruction) {
    const auto [known, is_new] =
        known_.try_emplace(request_of(program_, instruction, model_.placement().replicates));
    if (is_new) known->second = model_.collective(program_, instruction);
    return known->second;
  }

  void start(const Instruction& instruction, std::vector<ScheduleItem>& items) {
    const auto& communicate = *instruction.as<action::Communicate>();
    const Provenance& from = instruction.provenance;
    const int64_t message = next_message_++;
    const CollectiveTime time =
        local_.is_made_with_terms(instruction) ? CollectiveTime{} : time_of(instruction);
    const double bytes = bytes_sent(program_, instruction);
    const std::optional<Pin>& pin = program_.values[instruction.inputs[0]].layout.pin;
    const std::optional<int> lane = lanes_.of(pin);
    if (time.network == 0) {
      items.push_back(ScheduledWork{from.scope, from.phase, WorkKind::kCollective, 0, bytes, time.processor,
                                    message, lane});
      return;
    }
    for (ValueId id : instruction.outputs) messages_[id] = message;
    ScheduledStart start{message, name_of(instruction), communicate.axes, from.scope, from.phase,
                         bytes,   time.network,         time.processor,   lane,       {}};
    if (const auto* send = instruction.collective<action::Send>()) {
      start.to = send->to ? std::vector<int>{*lanes_.of(Pin{pin->axis, *send->to})} : lanes_.others(*pin);
    }
    items.push_back(std::move(start));
    if (!communicate.started || !model_.placement().overlaps) items.push_back(ScheduledWait{{message}});
  }

  void transfer(const Instruction& instruction, std::vector<ScheduleItem>& items) {
    const Provenance& from = instruction.provenance;
    const int64_t message = next_transfer_--;
    messages_[instruction.outputs[0]] = message;
    items.push_back(ScheduledStart{.message = message,
                                   .kind = name_of(instruction),
                                   .layer = from.scope,
                                   .phase = from.phase,
                                   .seconds = model_.transfer(program_, instruction),
                                   .lane = lanes_.of(computed(instruction).pin)});
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

  const Program& program_;
  const CostModel& model_;
  LocalWork local_;
  const Lanes lanes_;
  std::vector<double> times_;
  std::map<CollectiveRequest, CollectiveTime> known_;
  int64_t next_message_ = 0;  ///< counts as program_facts.h does
  int64_t next_transfer_ = -1;
  std::unordered_map<ValueId, int64_t> messages_;
};

/// Adds the seconds for which a process of the first lane computes, and those of its processor's messages.
void add_processor(const std::vector<ScheduleItem>& schedule, double times, double& computing,
                   double& messages) {
  for (const ScheduleItem& item : schedule) {
    if (const auto* work = std::get_if<ScheduledWork>(&item)) {
      if (work->lane.value_or(0) == 0) computing += times * work->seconds;
    } else if (const auto* start = std::get_if<ScheduledStart>(&item)) {
      messages += times * start->processor;
    } else if (const auto* loop = std::get_if<ScheduleLoop>(&item)) {
      add_processor(loop->body, times * static_cast<double>(loop->times), computing, messages);
    }
  }
}

}  // namespace

Lanes::Lanes(const HostedMesh& mesh) : lanes_(static_cast<size_t>(mesh.mesh().rank())) {
  for (int axis = 0; axis < mesh.mesh().rank(); ++axis) {
    std::vector<int>& lanes = lanes_[static_cast<size_t>(axis)];
    int before = 0;
    for (int64_t stage = 0; stage < mesh.mesh().size(axis); ++stage) {
      const int host = mesh.host(mesh.mesh().first_position(stage, axis_bit(axis)));
      lanes.push_back(lanes.empty() ? 0 : lanes.back() + (host == before ? 0 : 1));
      before = host;
    }
  }
}

std::optional<int> Lanes::of(const std::optional<Pin>& pin) const {
  if (!pin) return std::nullopt;
  const std::vector<int>& lanes = of_stages(*pin);
  return lanes.back() == 0 ? std::nullopt : std::optional(lanes[static_cast<size_t>(pin->coordinate)]);
}

std::vector<int> Lanes::others(const Pin& pin) const {
  std::vector<int> lanes = of_stages(pin);
  const int own = lanes[static_cast<size_t>(pin.coordinate)];
  lanes.erase(std::ranges::unique(lanes).begin(), lanes.end());
  std::erase(lanes, own);
  return lanes;
}

int lanes_of(const std::vector<ScheduleItem>& schedule) {
  int lanes = 1;
  for (const ScheduleItem& item : schedule) {
    if (const auto* work = std::get_if<ScheduledWork>(&item))
      lanes = std::max(lanes, work->lane.value_or(0) + 1);
  }
  return lanes;
}

std::vector<ScheduleItem> schedule_of(const Program& program, const CostModel& model) {
  std::vector<ScheduleItem> schedule = Scheduler(program, model).block(program.instructions);
  double computing = 0, messages = 0;
  add_processor(schedule, 1, computing, messages);
  for (ScheduleItem& item : schedule | std::views::reverse) {
    auto* start = std::get_if<ScheduledStart>(&item);
    if (start == nullptr || start->message < 0) continue;
    start->seconds += model.turn_seconds(computing, messages);
    break;
  }
  return schedule;
}

}  // namespace mtf
