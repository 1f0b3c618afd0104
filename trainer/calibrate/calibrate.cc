#include "trainer/calibrate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/base/core_waits.h"
#include "engine/base/counted.h"
#include "engine/base/file.h"
#include "engine/base/print_message.h"
#include "engine/config/load.h"
#include "trainer/calibrate/measure_convolutions.h"
#include "trainer/calibrate/measure_link.h"
#include "trainer/calibrate/measure_memory.h"
#include "trainer/calibrate/measure_overheads.h"
#include "trainer/calibrate/measure_products.h"
#include "trainer/calibrate/measurement.h"
#include "trainer/config/cores.h"
#include "trainer/config/devices.h"

namespace mtf {
namespace {

/// What operands count on of a GPU's L2 cache, whose size DeviceInfo does not have: less than any since the A100 has (40 MB),
/// as other operands lie there, too.
constexpr int64_t kGpuCacheBytes = 32 << 20;

/// "AMD EPYC 7543 32-Core Processor", as the system calls the processor.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  return "this processor";
}

/// The bytes of the last cache that the cores of this processor share; 0 if the system does not say.
int64_t last_cache_bytes() {
  int64_t bytes = 0;
  for (int index = 0; index < 5; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    int64_t kilobytes = 0;
    if (file >> kilobytes) bytes = std::max(bytes, kilobytes << 10);
  }
  return bytes;
}

void note(const char* what) { print_message("measures {}\n", what); }

HardwareOptions describe_machine(const Backend& backend) {
  HardwareOptions hardware;
  hardware.links.clear();
  DeviceOptions& device = hardware.device;
  if (const DeviceInfo* gpu = backend.device_info()) {
    device.kind = DeviceKind::kCuda;
    device.name = gpu->name;
    device.memory = config::Bytes{gpu->memory_bytes};
    device.cache.size = {kGpuCacheBytes};
    return hardware;
  }
  const int cores = usable_cores(1);
  device.name = fmt::format("{}, {}", processor_name(), counted(cores, "core"));
  device.memory = config::Bytes{int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE)};
  device.cores = cores;
  device.cache.size = {std::clamp<int64_t>(last_cache_bytes() / cores, 1 << 20, 64 << 20)};
  return hardware;
}

HardwareOptions measured_hardware(Backend& backend, int rounds) {
  HardwareOptions hardware = describe_machine(backend);
  DeviceOptions& device = hardware.device;
  const int64_t cache = device.cache.size.value, own = backend.is_host() ? sysconf(_SC_LEVEL2_CACHE_SIZE) : 0;
  Measurement measurement{.backend = backend,
                          .rounds = rounds,
                          .sizes = backend.is_host() ? processor_sizes(cache) : gpu_sizes(cache),
                          .bytes_between = static_cast<double>(std::max(cache, 2 * own)),
                          .bytes_until_cold = static_cast<double>(4 * cache * device.cores)};
  note("overheads");
  measure_overheads(measurement, device);
  measurement.overhead = device.overhead;
  note("products");
  measure_products(measurement, device);
  note("attention");
  device.attention =
      measure_attention(measurement, measurement.sizes.dtype == DType::kBFloat16 ? *device.flops.bfloat16
                                                                                 : device.flops.float32);
  note("memory");
  measure_memory(measurement, device);
  if (!backend.is_host()) return hardware;
  device.products.exposed = measure_exposure(measurement, device.bandwidth);
  note("convolutions");
  device.convolutions = measure_convolutions(measurement, device.flops.float32, device.bandwidth);
  return hardware;
}

/// The library of attention that run.attention takes is measured, too.
void use_attention_library(Backend& backend, const Config& config) {
  const AttentionChoice choice = config.run.attention;
  if (backend.is_host() || choice == AttentionChoice::kOwn) return;
  try {
    backend.use_attention_library(choice == AttentionChoice::kAuto ? AttentionLibraryUse::kWhereFaster
                                                                   : AttentionLibraryUse::kWhereItComputes);
  } catch (const Error& error) {
    if (choice != AttentionChoice::kAuto) throw;
    print_message("attention is that of mtf-train's own kernels: {}\n", error.what());
  }
}

std::string profile_text(const HardwareOptions& hardware) {
  const config::Node section = config::dump(hardware);
  const config::Node root = config::Node::map({config::Entry{"hardware", {}, section}});
  return fmt::format(
      "# Measured by mtf-train {}, run.mode=calibrate. For key `hardware` of run.mode=explain.\n{}",
      MTF_VERSION, config::to_yaml(root));
}

/// Throws Error (kConfig) when the profile could not be written where it is asked for.
void check_output(const Config& config) {
  const std::string& file = config.calibrate.output.text;
  std::error_code ignored;
  const bool is_file = !file.empty() && !std::filesystem::is_directory(file, ignored);
  if (is_file && ::access(directory_of(file).c_str(), W_OK) == 0) return;
  throw Error(ErrorKind::kConfig, config.mark("calibrate.output"),
              file.empty() ? "`calibrate.output` names no file"
                           : fmt::format("cannot write {}: {}", file,
                                         is_file ? system_message(errno) : "it is a directory"),
              "a file in a directory that exists and can be written");
}

}  // namespace

void calibrate(const Config& config, ProcessGroup& processes) {
  if (processes.is_first()) check_output(config);
  const std::unique_ptr<Backend> backend = make_backend(config);
  if (!backend->is_host() && processes.size() > 1) {
    throw Error(ErrorKind::kConfig, config.mark("devices"),
                "run.mode=calibrate measures one GPU, and links between processes of the CPU",
                "`devices: cuda:0` in one process; links of GPUs stand in the files of configs/hardware");
  }
  backend->prepare_thread();
  use_attention_library(*backend, config);
  HardwareOptions hardware;
  const CoreWaits waits;
  processes.first_then_others("calibrate", [&] {
    if (processes.is_first()) hardware = measured_hardware(*backend, config.calibrate.rounds);
  });
  if (processes.size() > 1) {
    processes.agree({{"mode", "calibrate"}});
    if (processes.is_first()) print_message("measures the link between {} processes\n", processes.size());
    hardware.links = {measure_link(*backend, processes)};
  }
  if (!processes.is_first()) return;
  if (const std::string disturbed = waits.description(); !disturbed.empty())
    print_message("warning: {}; calibrate again when the machine is quiet\n", disturbed);
  const std::string& file = config.calibrate.output.text;
  const std::string text = profile_text(hardware);
  if (const int error = write_file(file, std::as_bytes(std::span(text)))) {
    throw Error(ErrorKind::kSystem, config.mark("calibrate.output"),
                fmt::format("cannot write {}: {}", file, system_message(error)));
  }
  const DeviceOptions& device = hardware.device;
  if (device.kind == DeviceKind::kCuda) {
    fmt::print(
        "{}: {:.4g} TFLOP/s of products in bfloat16, {:.3g} GB/s of its memory and {:.3g} GB/s to that of "
        "the machine; in {}\n",
        device.name, *device.flops.bfloat16 * 1e-12, device.bandwidth * 1e-9, device.host_link * 1e-9, file);
    return;
  }
  fmt::print("{}: {:.4g} GFLOP/s of products and {:.3g} GB/s on a core, {:.3g} GB/s in all{}; in {}\n",
             device.name, device.flops.float32 * 1e-9, device.rates.elementwise->memory * 1e-9,
             device.bandwidth * 1e-9,
             hardware.links.empty()
                 ? std::string()
                 : fmt::format("; {:.3g} GB/s and {:.3g} us between processes",
                               hardware.links[0].bandwidth * 1e-9, hardware.links[0].latency * 1e6),
             file);
}

}  // namespace mtf
