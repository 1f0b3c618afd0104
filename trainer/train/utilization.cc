#include "trainer/train/utilization.h"

#include <array>

#include "engine/spmd/program_facts.h"
#include "trainer/memory/available.h"
#include "trainer/parameter_server/server_plan.h"

namespace mtf {
namespace {

/// Peak FLOP/s by data type, without sparsity.
struct Peaks {
  std::string_view device;
  double bfloat16, tf32, float32;
};
constexpr std::array<Peaks, 6> kPeaks = {{
    {"NVIDIA H100 80GB HBM3", 989.4e12, 494.7e12, 66.9e12},
    {"NVIDIA H100 PCIe", 756e12, 378e12, 51.2e12},
    {"NVIDIA H200", 989.4e12, 494.7e12, 66.9e12},
    {"NVIDIA A100-SXM4", 312e12, 156e12, 19.5e12},
    {"NVIDIA A100-PCIE", 312e12, 156e12, 19.5e12},
    {"NVIDIA A100 80GB PCIe", 312e12, 156e12, 19.5e12},
}};

/// True if a device is of a kind: "NVIDIA A100-SXM4-80GB" is a "NVIDIA A100-SXM4", but "NVIDIA H200 NVL" and
/// partitions of a GPU are other devices.
bool is_kind_of(std::string_view name, std::string_view kind) {
  return name.starts_with(kind) && name.find(' ', kind.size()) == std::string_view::npos;
}

std::optional<double> peak_of_device(const Session& session) {
  if (session.config.run.peak_flops.value) return session.config.run.peak_flops.value;
  const DeviceInfo* device = session.backend->device_info();
  return device == nullptr ? std::nullopt : peak_flops_of(device->name, precision_of(session.config));
}

}  // namespace

double model_flops(const Program& program) { return program_facts(program).model_flops; }

std::optional<double> peak_flops_of(std::string_view device, const Precision& precision) {
  for (const Peaks& peaks : kPeaks) {
    if (!is_kind_of(device, peaks.device)) continue;
    if (precision.activation == DType::kBFloat16) return peaks.bfloat16;
    switch (precision.matmul) {
      case MatmulPrecision::kTf32:
        return peaks.tf32;
      case MatmulPrecision::kBFloat16:
        return peaks.bfloat16;
      case MatmulPrecision::kFull:
        return peaks.float32;
    }
  }
  return std::nullopt;
}

std::optional<double> peak_flops(const Session& session) {
  const Config& config = session.config;
  const std::optional<double> peak = peak_of_device(session);
  const int processes = parameter_servers(config) ? worker_count(config) : config.launch.size;
  return peak ? std::optional(*peak * processes) : std::nullopt;
}

int64_t memory_in_use(const Backend& backend) {
  return backend.is_host() ? peak_resident_bytes() : backend.memory_bytes();
}

}  // namespace mtf
