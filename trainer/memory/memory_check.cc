#include "trainer/memory/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/runtime/memory_plan.h"
#include "trainer/memory/advice.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

/// A tensor that is listed in the details of the error.
struct LargeTensor {
  int64_t bytes = 0;  ///< size in this process
  std::string text;
};

void add_variables(const Program& program, bool replicate, Hosting hosting,
                   std::vector<LargeTensor>& tensors) {
  const HostedMesh mesh(program.mesh, hosting);
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.on_host) continue;
    tensors.push_back({process_bytes(v, mesh, replicate),
                       fmt::format("{} {}  variable `{}`", short_name(v.variable.dtype),
                                   to_string(v.variable.shape, v.layout, program.mesh), v.variable.name)});
  }
}

/// Adds the results of instructions that have their own memory in the plan.
void add_temporaries(const Program& program, const std::vector<Instruction>& block, const MemoryPlan& plan,
                     bool replicate, const HostedMesh& mesh, std::vector<LargeTensor>& tensors) {
  for (const Instruction& instruction : block) {
    add_temporaries(program, instruction.body(), plan, replicate, mesh, tensors);
    for (const ValueId id : instruction.outputs) {
      const Value& value = program.values[id];
      if (plan.offsets[id] < 0 || value.on_host) continue;
      const Copies stored = program.mesh.stored(value.copies(), replicate);
      const std::string& layer = instruction.provenance.path();
      tensors.push_back({program.local_bytes(id) * mesh.size_of(stored),
                         fmt::format("{} {}  {} `{}`{}", short_name(value.dtype),
                                     to_string(value.shape, value.layout, program.mesh),
                                     is_evaluation(program) ? "in the evaluation, result of" : "result of",
                                     name_of(instruction), layer.empty() ? "" : " in layer " + layer)});
    }
  }
}

std::vector<LargeTensor> largest_tensors(const std::vector<const Program*>& programs, bool replicate,
                                         Hosting hosting) {
  constexpr size_t kMost = 8;
  std::vector<LargeTensor> tensors;
  add_variables(*programs[0], replicate, hosting, tensors);
  for (const Program* program : programs) {
    add_temporaries(*program, program->instructions, plan_arenas(*program, replicate, hosting), replicate,
                    {program->mesh, hosting}, tensors);
  }
  std::ranges::stable_sort(tensors,
                           [](const LargeTensor& a, const LargeTensor& b) { return a.bytes > b.bytes; });
  if (tensors.size() > kMost) tensors.resize(kMost);
  return tensors;
}

std::string line_of(int64_t bytes, const std::string& text) {
  return fmt::format("\n{:>12}  {}", bytes_text(static_cast<double>(bytes)), text);
}

std::string details_of(const MemoryNeed& need, const std::vector<LargeTensor>& tensors) {
  std::string text = "what it is for:";
  std::vector<MemoryNeed::Part> parts = need.parts;
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (const MemoryNeed::Part& part : parts) text += line_of(part.bytes, part.name);
  if (!tensors.empty()) text += "\nlargest tensors (bytes in this process):";
  for (const LargeTensor& tensor : tensors) text += line_of(tensor.bytes, tensor.text);
  return text;
}

std::string message_of(int64_t needed, const MemoryLimit& limit, std::string_view whose) {
  std::string need = bytes_text(static_cast<double>(needed));
  std::string may = bytes_text(static_cast<double>(limit.bytes));
  if (need == may) {
    need = with_thousands(static_cast<double>(needed)) + " B";
    may = with_thousands(static_cast<double>(limit.bytes)) + " B";
  }
  return fmt::format("the run needs {} of {} and may take {} ({})", need, whose, may, limit.source);
}

std::string hint_of(const std::vector<std::string>& advice) {
  if (advice.empty())
    return "a smaller model, or more memory: no batch size or layout that was tried makes it fit";
  return fmt::format("{}: {}", advice.size() == 1 ? "this fits" : "each of these fits",
                     fmt::join(advice, "; "));
}

/// `tensors`: the largest ones in the memory of tensors, the host's or the device's.
[[noreturn]] void refuse(const Session& session, const RunMemory& need, const MemoryLimits& limits,
                         const std::vector<std::string>& advice, const std::vector<LargeTensor>& tensors) {
  std::vector<Problem> problems;
  const auto add = [&](const MemoryNeed& needed, const MemoryLimit& limit, std::string_view whose,
                       const char* key, bool is_given, bool has_tensors) {
    if (needed.total() <= limit.bytes) return;
    Problem problem;
    problem.kind = is_given ? ErrorKind::kConfig : ErrorKind::kMemory;
    if (is_given) problem.mark = session.config.mark(key);
    problem.message = message_of(needed.total(), limit, whose);
    problem.hint = hint_of(advice);
    problem.details = details_of(needed, has_tensors ? tensors : std::vector<LargeTensor>());
    problems.push_back(std::move(problem));
  };
  const RunOptions& run = session.config.run;
  if (limits.device) {
    add(need.device, *limits.device, "the GPU's memory", "run.device_memory_limit",
        run.device_memory_limit.value.has_value(), true);
  }
  add(need.host, limits.host, limits.device ? "the machine's memory" : "memory", "run.memory_limit",
      run.memory_limit.value.has_value(), session.backend->is_host());
  throw Error(std::move(problems));
}

/// Tells the backend what was planned, for the message of an allocation that fails all the same.
void set_plan(const Session& session, const RunMemory& need, const MemoryLimits& limits) {
  if (!limits.device) return;
  session.backend->set_memory_plan(fmt::format(
      "the run was planned with {} of {} ({})", bytes_text(static_cast<double>(need.device.total())),
      bytes_text(static_cast<double>(limits.device->bytes)), limits.device->source));
}

std::string log_line(std::string_view whose, const MemoryNeed& need, const std::string& limit) {
  std::vector<std::string> parts;
  for (const MemoryNeed::Part& part : need.parts)
    parts.push_back(fmt::format("{} {}", part.name, bytes_text(static_cast<double>(part.bytes))));
  return fmt::format("memory of {}: {} planned, limit {}; {}", whose,
                     bytes_text(static_cast<double>(need.total())), limit, fmt::join(parts, ", "));
}

std::string limit_text(const MemoryLimit& limit) {
  return fmt::format("{} ({})", bytes_text(static_cast<double>(limit.bytes)), limit.source);
}

}  // namespace

MemoryUse memory_use(const Session& session, bool snapshot, std::span<const EvaluationSet> evaluation_sets,
                     const DecodingBytes& decoding) {
  return {snapshot, session.config.run.check_replicas, evaluation_sets, decoding, hosting_of(session.config)};
}

namespace {

/// A process's share of `memory` of the device in section `hardware`.
MemoryLimit planned_limit(const DeviceOptions& device, config::Bytes memory, int processes) {
  MemoryLimit limit{memory.value / processes,
                    device.name.empty() ? "`hardware`" : fmt::format("`hardware`: {}", device.name)};
  if (processes > 1) limit.source += fmt::format(", shared by {} processes", processes);
  return limit;
}

}  // namespace

MemoryLimit memory_limit(const Config& config) {
  const int processes = config.launch.local_size;
  if (const auto& given = config.run.memory_limit.value) return {given->value, "run.memory_limit"};
  if (!config.machine) return available_memory(processes);
  const DeviceOptions& device = config.machine->device;
  if (device.kind == DeviceKind::kCpu)
    return device.memory ? planned_limit(device, *device.memory, processes) : available_memory(processes);
  if (device.host_memory) return planned_limit(device, *device.host_memory, 1);
  return {std::numeric_limits<int64_t>::max(), "not checked: `hardware` has no host_memory"};
}

MemoryLimits memory_limits(const Session& session) {
  MemoryLimits limits{memory_limit(session.config), std::nullopt};
  if (session.backend->is_host()) return limits;
  if (const auto& given = session.config.run.device_memory_limit.value) {
    limits.device = {given->value, "run.device_memory_limit"};
  } else if (const auto& machine = session.config.machine; machine && machine->device.memory) {
    limits.device = planned_limit(machine->device, *machine->device.memory, 1);
  } else if (session.device_budget) {
    const DeviceBudget& budget = *session.device_budget;
    limits.device = {budget.state.free / budget.processes, "free memory of " + budget.gpu};
    if (budget.processes > 1)
      limits.device->source += fmt::format(", shared by {} processes", budget.processes);
  }
  return limits;
}

ProcessLimits planned_limits(const Session& session, const MemoryLimits& limits) {
  const Hosting hosting = hosting_of(session.config);
  if (session.processes->size() > 1) return {{hosting.process, limits}};
  ProcessLimits all;
  for (int process = 0; process < hosting.processes; ++process) all.emplace(process, limits);
  return all;
}

bool fits(const RunMemory& need, const MemoryLimits& limits) {
  return need.host.total() <= limits.host.bytes &&
         (!limits.device || need.device.total() <= limits.device->bytes);
}

TightMemory tightest(const RunMemory& need, const MemoryLimits& limits) {
  const TightMemory host{need.host.total(), limits.host};
  if (!limits.device) return host;
  TightMemory device{need.device.total(), *limits.device};
  return device.share() > host.share() ? device : host;
}

std::vector<std::string> check_memory(const Session& session, const std::vector<const Program*>& programs,
                                      bool snapshot, std::span<const EvaluationSet> evaluation_sets,
                                      const DecodingNeed& decoding) {
  const MemoryUse use = memory_use(session, snapshot, evaluation_sets, decoding.bytes);
  const RunMemory need = memory_need(session, programs, use);
  const MemoryLimits limits = memory_limits(session);
  if (!fits(need, limits)) {
    std::vector<std::string> advice = memory_advice(session, programs, use, limits);
    if (decoding.advice) {
      const DecodingBytes left{limits.host.bytes - need.host.total() + use.decoding.host,
                               limits.device
                                   ? limits.device->bytes - need.device.total() + use.decoding.device
                                   : std::numeric_limits<int64_t>::max()};
      std::ranges::move(decoding.advice(left), std::back_inserter(advice));
    }
    refuse(session, need, limits, advice, largest_tensors(programs, use.check_replicas, use.hosting));
  }
  set_plan(session, need, limits);
  std::vector<std::string> lines{log_line("the machine", need.host, limit_text(limits.host))};
  if (!session.backend->is_host())
    lines.push_back(
        log_line("the GPU", need.device, limits.device ? limit_text(*limits.device) : "not known"));
  return lines;
}

void check_memory(const Session& session, const RunMemory& need,
                  const std::function<std::vector<std::string>(const MemoryLimits& limits)>& advice) {
  const MemoryLimits limits = memory_limits(session);
  if (!fits(need, limits)) refuse(session, need, limits, advice(limits), {});
  set_plan(session, need, limits);
}

}  // namespace mtf
