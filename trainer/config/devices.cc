#include "trainer/config/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engine/backend/device_plugin.h"
#include "engine/backend/planned_device.h"
#include "engine/base/signals.h"
#include "trainer/config/config.h"
#include "trainer/config/cores.h"
#include "trainer/config/strategy.h"

namespace mtf {
namespace {

constexpr int64_t kMostDevices = 1'000'000;

/// One entry of the list.
struct Entry {
  bool is_cuda = false;
  std::optional<int64_t> gpu;  ///< nothing: any
  std::optional<int64_t> times;
  Mark mark;
  std::string text;

  int64_t positions() const { return times.value_or(1); }
};

[[noreturn]] void wrong(const Entry& entry, const std::string& hint) {
  throw Error(ErrorKind::kConfig, entry.mark, fmt::format("`devices`: `{}` is not a device", entry.text),
              hint);
}

/// "cpu", "cpu*8", "cuda", "cuda:0", "cuda:0*4".
Entry parse(const std::string& text, const Mark& mark) {
  constexpr const char* kForms = "`cpu`, `cpu*8`, `cuda`, `cuda:0` or `cuda:0*8`";
  Entry entry{.is_cuda = text.starts_with("cuda"), .gpu = {}, .times = {}, .mark = mark, .text = text};
  std::string name = text;
  if (const size_t star = text.find('*'); star != std::string::npos) {
    entry.times = config::to_integer(text.substr(star + 1)).value_or(0);
    if (*entry.times < 1 || *entry.times > kMostDevices) wrong(entry, kForms);
    name = text.substr(0, star);
  }
  if (name == "cpu") return entry;
  if (name == "cuda" && entry.times)
    wrong(entry, fmt::format("`cuda:0*{}` for {} positions on one GPU", *entry.times, *entry.times));
  if (name == "cuda") return entry;
  if (name.starts_with("cuda:")) entry.gpu = config::to_integer(name.substr(5));
  if (!entry.gpu || *entry.gpu < 0) wrong(entry, kForms);
  return entry;
}

/// The visible GPUs. The driver, which starts threads when it is first used, is loaded here.
std::vector<DeviceInfo> visible_devices() {
  const BlockedSignals blocked;
  return device_plugin().devices();
}

/// Throws Error (kNoDevice, kSystem) with the place of `devices`. The devices are asked once.
int64_t visible_gpus(const Entry& entry) {
  try {
    static const auto count = static_cast<int64_t>(visible_devices().size());
    return count;
  } catch (const Error& error) {
    const Problem& problem = error.problems().front();
    throw Error(problem.kind, entry.mark, fmt::format("`devices: {}`: {}", entry.text, problem.message),
                problem.hint);
  }
}

/// The GPUs that the run may name. run.mode=explain needs none of them: it plans for as many as the run has.
int64_t usable_gpus(const Config& config, const Entry& entry) {
  return config.run.mode == RunMode::kExplain ? kMostDevices : visible_gpus(entry);
}

/// The GPUs for a mesh with a dimension of size `auto`; run.mode=explain without a GPU takes one.
int64_t gpus_of_auto(const Config& config, const Entry& entry) {
  if (config.machine) return 1;
  try {
    return visible_gpus(entry);
  } catch (const Error&) {
    if (config.run.mode != RunMode::kExplain) throw;
    return 1;
  }
}

/// "`avx2` or `portable`".
std::string names_of(const std::vector<InstructionSet>& sets) {
  std::string text;
  for (size_t i = 0; i < sets.size(); ++i)
    text += fmt::format("{}`{}`", i == 0 ? "" : i + 1 == sets.size() ? " or " : ", ", name_of(sets[i]));
  return text;
}

std::string counted_gpus(int64_t count) { return count == 1 ? "1 GPU" : fmt::format("{} GPUs", count); }

/// `cuda`: each process of this machine takes the GPU of its local rank, or the only one that it sees; one alone
/// as many as the mesh needs.
Devices any_gpus(const Config& config, const Entry& entry) {
  const int64_t visible = usable_gpus(config, entry);
  const Launch& launch = config.launch;
  if (launch.several()) {
    // Launchers such as `srun --gpus-per-task` show each process its own GPU.
    if (visible == 1) return {.is_cuda = true, .positions = 1, .gpu = 0};
    if (launch.local_size > visible) {
      throw Error(
          ErrorKind::kConfig, entry.mark,
          fmt::format("{} processes on this machine have {}", launch.local_size, counted_gpus(visible)),
          "start fewer processes, or name a GPU for each, such as `devices: [cuda:0, cuda:0, cuda:1, "
          "cuda:1]`");
    }
    return {.is_cuda = true, .positions = 1, .gpu = launch.local_rank};
  }
  int64_t needed = 1;
  if (config.mesh) {
    for (const auto& axis : config.mesh->axes) needed *= axis.size.value_or(1);
    needed *= config.mesh->positions.value_or(1);
    if (config.mesh->has_auto() || (config.mesh->is_auto && !config.mesh->positions))
      needed = gpus_of_auto(config, entry);
  }
  if (needed > visible) {
    throw Error(ErrorKind::kConfig, entry.mark,
                fmt::format("`mesh` has {} positions, and there {} {}", needed, visible == 1 ? "is" : "are",
                            counted_gpus(visible)),
                fmt::format("`devices: cuda:0*{}` puts all positions on one GPU", needed));
  }
  return {.is_cuda = true, .positions = needed, .gpu = 0, .processes = static_cast<int>(needed)};
}

/// `cuda:0`, `[cuda:0, cuda:1]`: with several processes each takes its own entry, or all the only one.
Devices named_gpus(const Config& config, const std::vector<Entry>& entries) {
  const int64_t visible = usable_gpus(config, entries.front());
  for (const Entry& entry : entries) {
    if (*entry.gpu >= visible) {
      throw Error(ErrorKind::kConfig, entry.mark,
                  fmt::format("`devices`: there is no `{}`; this machine shows {}", entry.text,
                              counted_gpus(visible)),
                  visible == 1 ? "`cuda:0`" : fmt::format("`cuda:0` to `cuda:{}`", visible - 1));
    }
    if (entry.positions() != entries.front().positions()) {
      throw Error(
          ErrorKind::kConfig, entry.mark, "`devices`: GPUs with different numbers of positions",
          fmt::format("`{}*{}`", entry.text.substr(0, entry.text.find('*')), entries.front().positions()));
    }
  }
  const Launch& launch = config.launch;
  const auto count = static_cast<int>(entries.size());
  const int64_t positions = entries.front().positions();
  if (!launch.several())
    return {.is_cuda = true,
            .positions = positions * count,
            .gpu = static_cast<int>(*entries[0].gpu),
            .processes = count};
  if (count != 1 && count != launch.local_size) {
    throw Error(ErrorKind::kConfig, entries.front().mark,
                fmt::format("`devices` names {} for the {} processes of this machine", counted_gpus(count),
                            launch.local_size),
                "one for each process, or one for all");
  }
  const Entry& own = entries[count == 1 ? 0 : static_cast<size_t>(launch.local_rank)];
  return {.is_cuda = true, .positions = positions, .gpu = static_cast<int>(*own.gpu)};
}

/// Which GPUs reach the memory of which others: "  1 .", a row for each.
std::string peer_matrix(const std::vector<DeviceInfo>& devices) {
  std::string text = "peers: x = the row's GPU reaches the memory of the column's\n      ";
  for (const DeviceInfo& device : devices) text += fmt::format("{:>4}", device.index);
  for (const DeviceInfo& device : devices) {
    text += fmt::format("\n  {:>4}", device.index);
    for (size_t other = 0; other < device.peers.size(); ++other)
      text += fmt::format("{:>4}", static_cast<int>(other) == device.index ? "-"
                                   : device.peers[other]                   ? "x"
                                                                           : ".");
  }
  return text + "\n";
}

}  // namespace

bool names_gpus(const Config& config) {
  return std::ranges::any_of(config.devices,
                             [](const std::string& name) { return name.starts_with("cuda"); });
}

Devices resolve_devices(const Config& config) {
  if (is_parameter_server(config)) return {};
  std::vector<Entry> entries;
  for (size_t i = 0; i < config.devices.size(); ++i)
    entries.push_back(parse(config.devices[i], config.mark(fmt::format("devices.{}", i))));
  for (const Entry& entry : entries) {
    if (entry.is_cuda == entries.front().is_cuda) continue;
    throw Error(ErrorKind::kConfig, entry.mark, "`devices` mixes processors and GPUs",
                "either of them alone");
  }
  if (entries.empty()) return {};
  if (entries.front().is_cuda) {
    const auto any = std::ranges::find_if(entries, [](const Entry& entry) { return !entry.gpu; });
    if (any == entries.end()) return named_gpus(config, entries);
    if (entries.size() > 1) wrong(*any, "`cuda` alone, or `cuda:0` for one of them");
    return any_gpus(config, *any);
  }
  if (entries.size() == 1 && !entries.front().times) return {};
  int64_t positions = 0;
  for (const Entry& entry : entries) positions += entry.positions();
  return {.is_cuda = false, .positions = positions};
}

InstructionSet chosen_instruction_set(const Config& config, const std::vector<InstructionSet>& available) {
  const bool in_bfloat16 = config.precision.matmul == MatmulPrecision::kBFloat16 ||
                           config.precision.infer == InferPrecision::kBFloat16 ||
                           config.run.mode == RunMode::kCalibrate;  // which measures them, too
  const auto chosen = [&] {
    switch (config.run.instruction_set) {
      case InstructionSetChoice::kAuto:
        // Other products have the same bits by AVX-512, whose name then stands in checkpoints.
        if (available.front() == InstructionSet::kAmx && !in_bfloat16) return InstructionSet::kAvx512;
        break;
      case InstructionSetChoice::kAmx:
        return InstructionSet::kAmx;
      case InstructionSetChoice::kAvx512:
        return InstructionSet::kAvx512;
      case InstructionSetChoice::kAvx2:
        return InstructionSet::kAvx2;
      case InstructionSetChoice::kPortable:
        return InstructionSet::kPortable;
    }
    return available.front();
  }();
  if (std::ranges::count(available, chosen) == 0) {
    throw Error(ErrorKind::kConfig, config.mark("run.instruction_set"),
                fmt::format("`run.instruction_set: {}`: this machine lacks it", name_of(chosen)),
                fmt::format("`auto`, {}", names_of(available)));
  }
  return chosen;
}

std::unique_ptr<Backend> make_backend(const Config& config) {
  const Devices devices = resolve_devices(config);
  if (!devices.is_cuda) return make_cpu_backend();
  if (config.machine) {
    const std::string& name = config.machine->device.name;
    return make_planned_device(name.empty() ? "a GPU" : name, "`hardware` says what is there");
  }
  try {
    return device_plugin().make_backend(devices.gpu);
  } catch (const Error& error) {
    if (config.run.mode != RunMode::kExplain) throw;
    return make_planned_device("any GPU",
                               fmt::format("there is no GPU here ({})", error.problems().front().message));
  }
}

std::string list_devices() {
  const std::vector<InstructionSet>& sets = available_instruction_sets();
  std::string text = fmt::format("cpu     {} threads, {}\n", usable_cores(), name_of(sets.front()));
  if (sets.size() > 1)
    text += fmt::format("        `run.instruction_set` may also be {}\n",
                        names_of({sets.begin() + 1, sets.end()}));
  std::vector<DeviceInfo> devices;
  try {
    devices = visible_devices();
  } catch (const Error& error) {
    return text + fmt::format("no GPU: {}\n", error.what());
  }
  for (const DeviceInfo& device : devices) {
    text += fmt::format("cuda:{:<2} {}, {:.1f} GiB, PCI {}, {}, {} multiprocessors\n", device.index,
                        device.name, static_cast<double>(device.memory_bytes) / (1 << 30), device.pci,
                        device.architecture(), device.multiprocessors);
  }
  return devices.size() > 1 ? text + peer_matrix(devices) : text;
}

}  // namespace mtf
