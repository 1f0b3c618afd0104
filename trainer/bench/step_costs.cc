#include "trainer/bench/step_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "engine/base/counted.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/program_profile.h"
#include "engine/spmd/work.h"
#include "trainer/costs/local_work.h"
#include "trainer/explain/name_pattern.h"
#include "trainer/explain/table.h"

namespace mtf {
namespace {

/// Adds a part to others.
void add_cost(const PartCost& part, PartCost& sum) {
  const bool is_first = sum.instructions == 0;
  sum.instructions += part.instructions;
  sum.seconds += part.seconds;
  sum.flops += part.flops;
  sum.bytes += part.bytes;
  if (is_first) {
    sum.predicted = part.predicted;
  } else if (!part.predicted || !sum.predicted) {
    sum.predicted.reset();
  } else {
    *sum.predicted += *part.predicted;
  }
}

/// Adds up what the instructions of a program cost.
class Accounts {
 public:
  Accounts(const Program& program, Profile& profile, const CostModel& model, StepCosts& costs)
      : program_(program), profile_(profile), model_(model), costs_(costs), works_(program) {
    if (costs.has_hardware) local_.emplace(program, model);
    for (const ProfileTrack* track : profile.tracks()) add_spans(*track);
  }

  void add(const std::vector<Instruction>& block, double times) {
    for (const Instruction& instruction : block) {
      if (instruction.is<action::Loop>()) {
        add(instruction.body(), times * static_cast<double>(instruction.count()));
      } else {
        add(instruction, times);
      }
    }
  }

  double seconds_of(const ProfileLabel* label) const {
    const auto found = seconds_.find(label);
    return found == seconds_.end() ? 0 : found->second;
  }

 private:
  void add_spans(const ProfileTrack& track) {
    // What a GPU does stands on its own track; the spans of the threads are those of enqueuing.
    const bool is_device = track.name() == kDeviceTrack;
    costs_.dropped += track.dropped();
    for (const ProfileTrack::Span& span : track.spans()) {
      const bool computes = span.label->category == ProfileCategory::kCompute ||
                            span.label->category == ProfileCategory::kCommunication;
      if (computes && is_device != model_.is_gpu()) continue;
      seconds_[span.label] += 1e-9 * static_cast<double>(span.end - span.begin);
    }
  }

  void add(const Instruction& instruction, double times) {
    const double seconds = seconds_of(ProgramProfile::label_of(profile_, program_, instruction)) /
                           static_cast<double>(costs_.measured.steps);
    const std::optional<Work> work = works_.of(instruction);
    if (!work && seconds == 0) return;
    PartCost part{.instructions = static_cast<int64_t>(times), .seconds = seconds};
    if (work && work->kind != WorkKind::kCollective) {
      const int64_t copies =
          model_.count(computed_over(program_, instruction, model_.placement().replicates));
      const double executions = times * static_cast<double>(copies);
      part.flops = has_flops(work->kind) ? executions * work->flops * work->computed : 0;
      part.bytes = executions * work->bytes;
      if (local_) {
        const ProcessWork process = local_->of(instruction, copies);
        part.predicted = times * static_cast<double>(process.calls) *
                         model_.seconds(process.work, process.cold, costs_.measured.threads);
      }
    }
    if (instruction.is<action::Done>()) {
      for (auto* parts : {&costs_.operations, &costs_.layers})
        add_cost(part, (*parts)["(waits for other processes)"]);
    } else {
      add_cost(part, costs_.operations[std::string(name_of(instruction))]);
      add_cost(part, costs_.layers[instruction.provenance.path()]);
    }
  }

  const Program& program_;
  Profile& profile_;
  const CostModel& model_;
  std::optional<LocalWork> local_;  ///< with hardware
  StepCosts& costs_;
  WorkFinder works_;
  std::unordered_map<const ProfileLabel*, double> seconds_;
};

using Part = std::pair<std::string, PartCost>;

/// The most expensive first.
std::vector<Part> sorted(const std::map<std::string, PartCost>& parts) {
  std::vector<Part> result(parts.begin(), parts.end());
  std::ranges::stable_sort(result,
                           [](const Part& a, const Part& b) { return a.second.seconds > b.second.seconds; });
  return result;
}

/// The layers, but those together whose names differ in numbers alone, if they are many.
std::map<std::string, PartCost> folded(const std::map<std::string, PartCost>& layers) {
  std::map<std::string, std::vector<std::string>> alike;
  for (const auto& [name, part] : layers) alike[without_numbers(name)].push_back(name);
  std::map<std::string, PartCost> result;
  for (const auto& [pattern, names] : alike) {
    const bool are_many = names.size() >= kFewestFolded;
    for (const std::string& name : names)
      add_cost(layers.at(name), result[are_many ? name_pattern(names) : name]);
  }
  return result;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

/// The seconds of all parts, of all threads together.
double busy_seconds(const StepCosts& costs) {
  double seconds = 0;
  for (const auto& [name, part] : costs.operations) seconds += part.seconds;
  return seconds;
}

/// The time in which threads had no task: at barriers, and what the training loop does between steps.
double idle_seconds(const StepCosts& costs) {
  return std::max(0.0, costs.measured.threads * (costs.profiled - costs.data) - busy_seconds(costs));
}

std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", 1e-9 * amount / seconds) : "";
}

std::string table_of(const StepCosts& costs, const std::string& title,
                     const std::map<std::string, PartCost>& parts) {
  constexpr double kLeastShare = 0.0005;
  std::vector<TextTable::Column> columns{{title},
                                         {"instructions", TextTable::kRight},
                                         {"ms", TextTable::kRight},
                                         {"share", TextTable::kRight},
                                         {"GFLOP/s", TextTable::kRight},
                                         {"GB/s", TextTable::kRight}};
  if (costs.has_hardware) columns.push_back({"predicted", TextTable::kRight});
  TextTable table(columns);
  const double threads = costs.measured.threads, whole = costs.profiled;
  const auto share = [&](double seconds) { return fmt::format("{:.1f} %", 100 * seconds / threads / whole); };
  PartCost rest;
  for (const auto& [name, part] : sorted(parts)) {
    if (part.seconds < kLeastShare * threads * whole) {
      rest.instructions += part.instructions;
      rest.seconds += part.seconds;
      continue;
    }
    std::vector<std::string> cells{name.empty() ? "(outside all layers)" : name,
                                   fmt::to_string(part.instructions),
                                   milliseconds(part.seconds / threads),
                                   share(part.seconds),
                                   rate(part.flops, part.seconds),
                                   rate(part.bytes, part.seconds)};
    if (costs.has_hardware)
      cells.push_back(part.predicted ? fmt::format("{:.0f} %", 100 * *part.predicted / part.seconds) : "");
    table.row(std::move(cells));
  }
  if (rest.instructions > 0)
    table.row({"(others)", fmt::to_string(rest.instructions), milliseconds(rest.seconds / threads),
               share(rest.seconds)});
  return table.to_string();
}

nlohmann::ordered_json parts_json(const std::map<std::string, PartCost>& parts, const char* key) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, part] : sorted(parts)) {
    nlohmann::ordered_json entry{{key, name},
                                 {"instructions", part.instructions},
                                 {"seconds", part.seconds},
                                 {"flops", part.flops},
                                 {"bytes", part.bytes}};
    entry["predicted"] = part.predicted ? nlohmann::ordered_json(*part.predicted) : nullptr;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

StepCosts step_costs(const Program& program, Profile& profile, const MeasuredSteps& measured,
                     const CostModel& model, bool has_hardware) {
  StepCosts costs;
  costs.measured = measured;
  costs.has_hardware = has_hardware;
  Accounts accounts(program, profile, model, costs);
  accounts.add(program.instructions, 1);
  const auto of_step = [&](std::string_view name, ProfileCategory category) {
    return accounts.seconds_of(profile.label(name, category)) / static_cast<double>(measured.steps);
  };
  costs.data = of_step("wait for data", ProfileCategory::kData);
  costs.profiled = of_step("step", ProfileCategory::kStep);
  return costs;
}

std::string to_string(const StepCosts& costs) {
  const MeasuredSteps& measured = costs.measured;
  double flops = 0;
  for (const auto& [name, part] : costs.operations) flops += part.flops;
  std::string text = fmt::format("a step takes {} ms, {} examples", milliseconds(measured.seconds),
                                 with_thousands(measured.examples / measured.seconds));
  if (measured.tokens > 0)
    text += fmt::format(" and {} tokens", with_thousands(measured.tokens / measured.seconds));
  text += fmt::format(" a second; {:.1f} GFLOP/s of contractions and attention\n",
                      1e-9 * flops / measured.seconds);
  text += fmt::format(
      "with a profile {} ms, of which {} ms go by waiting for data, and {} ms without a task{}\n\n",
      milliseconds(costs.profiled), milliseconds(costs.data),
      milliseconds(idle_seconds(costs) / measured.threads),
      measured.threads > 1 ? fmt::format(" (mean of {} threads)", measured.threads) : "");
  text +=
      table_of(costs, "operation", costs.operations) + "\n" + table_of(costs, "layer", folded(costs.layers));
  if (costs.dropped > 0)
    text +=
        fmt::format("without {}: a smaller `bench.steps` has room for all\n", counted(costs.dropped, "span"));
  return text;
}

nlohmann::ordered_json to_json(const StepCosts& costs) {
  const MeasuredSteps& measured = costs.measured;
  return {
      {"seconds", measured.seconds},
      {"steps", measured.steps},
      {"threads", measured.threads},
      {"examples", measured.examples},
      {"tokens", measured.tokens},
      {"profiled",
       {{"seconds", costs.profiled}, {"data", costs.data}, {"idle", idle_seconds(costs) / measured.threads}}},
      {"operations", parts_json(costs.operations, "operation")},
      {"layers", parts_json(costs.layers, "layer")}};
}

}  // namespace mtf
