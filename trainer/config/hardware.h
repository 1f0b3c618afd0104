// The hardware that run.mode=explain plans for, as data: a device, and the links between processes from the inside out.
//
//   hardware: h100_8x_nvlink_400g                # configs/hardware/h100_8x_nvlink_400g.yaml
//   hardware: runs/calibrate/hardware.yaml       # what run.mode=calibrate has measured
//   hardware: {device: {flops: 40e12, bandwidth: 2e12}, links: [{bandwidth: 25e9, latency: 20e-6}]}
//
// The cost model (trainer/costs/cost_model.h) says what the numbers mean for a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/schema.h"

namespace mtf {

/// What a device's positions are: cores of a machine that a process shares out among its positions, or a GPU.
enum class DeviceKind { kCpu, kCuda };
inline config::EnumNames enum_names(DeviceKind) {
  return {{"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}};
}

/// FLOPs of products in a second, by the type of the factors. Types that are not given run at the rate of float32.
struct PeakFlops {
  static constexpr std::string_view shorthand = "float32";
  double float32 = 1e12;
  std::optional<double> tf32;
  std::optional<double> bfloat16;
};

/// A product of m x n x k takes as long as one of (m + rows) x (n + columns) x (k + summed) at `share` of the peak:
/// what is added stands for packing, for the edges of tiles and for filling the device.
struct ProductRates {
  double share = 1;
  double rows = 0, columns = 0, summed = 0;
  double exposed = 0;  ///< the share of the time of bytes in memory that takes time beside the arithmetic
};

/// What convolutions reach, by how a processor computes them; nothing: as products, Winograd's as direct ones. Winograd's minimal
/// filtering (3 x 3 windows next to each other) counts as 16 products of tiles of 2 x 2 windows (rows) x outputs (columns) x inputs
/// (summed), and a depthwise one reaches `depthwise` of the peak.
struct ConvolutionRates {
  std::optional<ProductRates> direct, winograd;
  std::optional<double> depthwise;
};

/// Shares of the peak that attention reaches; `softmax` FLOPs stand for what else is done for a logit, `query` FLOPs for what
/// else is done for a query of a head. Blocks of logits that a causal mask hides do not count.
struct AttentionRates {
  double forward = 0.5, backward = 0.5;
  double softmax = 0, query = 0;
};

/// Bytes that a core reads and writes in a second.
struct MemoryRate {
  double cache = 100e9;
  double memory = 100e9;
};

/// The rates of operations that are not products, where they differ from those of the device's memory.
struct KindRates {
  std::optional<MemoryRate> elementwise, norms, reductions, sums, movement, updates, collectives;
};

struct CacheOptions {
  config::Bytes
      size;  ///< a core's share: an operand is here if no more other bytes were used since its last use
  double bandwidth = 0;  ///< bytes in a second; 0: as the memory
};

struct DeviceOptions {
  std::string name;
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<config::Bytes> memory;
  std::optional<config::Bytes> host_memory;  ///< memory of a GPU's machine, for each of its GPUs
  int64_t cores = 1;                         ///< cores, of which each has the rates below
  /// The share of its speed that a core keeps where all of them compute, with lower clock rates or as threads of one core.
  double together = 1;
  PeakFlops flops;
  ProductRates products;
  ConvolutionRates convolutions;
  AttentionRates attention;
  double bandwidth = 100e9;  ///< bandwidth of the memory, for all cores together
  /// Bytes in a second from the memory of a GPU's machine to it, and as many back at a time.
  double host_link = 25e9;
  CacheOptions cache;
  KindRates rates;
  double overhead = 0;  ///< seconds of each operation besides: calling a kernel, launching it
  double barrier = 0;   ///< seconds until several cores have met
  double step = 0;      ///< seconds of each step besides
  double wake = 0;  ///< seconds that several cores lose at the beginning of a step until all of them compute
};

struct LinkOptions {
  std::string name;
  std::optional<int64_t> processes;  ///< consecutive processes that it joins; nothing: all
  double bandwidth = 10e9;           ///< bytes that a process sends in a second
  /// The same for messages within a machine that stay in its caches; nothing: as others.
  std::optional<double> cached;
  double latency = 20e-6;  ///< seconds until a message arrives
  double core = 0;         ///< share of a core that is busy while messages travel
  bool inside = false;     ///< between processes of one machine, which share its cores
};

struct HardwareOptions {
  DeviceOptions device;
  std::vector<LinkOptions> links = {LinkOptions{}};
};

void describe(config::Visitor& visit, PeakFlops& options);
void describe(config::Visitor& visit, ProductRates& options);
void describe(config::Visitor& visit, ConvolutionRates& options);
void describe(config::Visitor& visit, AttentionRates& options);
void describe(config::Visitor& visit, MemoryRate& options);
void describe(config::Visitor& visit, KindRates& options);
void describe(config::Visitor& visit, CacheOptions& options);
void describe(config::Visitor& visit, DeviceOptions& options);
void describe(config::Visitor& visit, LinkOptions& options);
void describe(config::Visitor& visit, HardwareOptions& options);

/// Key `hardware`: the name of a file that ships, a path, or the values themselves.
using HardwareChoice = std::variant<config::Path, HardwareOptions>;

/// The number of consecutive processes, of `processes`, that share a machine.
int processes_of_machine(const HardwareOptions& hardware, int processes);

/// True for a path, false for the name of a file that ships.
bool is_hardware_file(const config::Path& path);
/// Returns the values of `choice`. A file has them in its section `hardware`. Problems go to `diagnostics`.
std::optional<HardwareOptions> load_hardware(const HardwareChoice& choice, Diagnostics& diagnostics);

}  // namespace mtf
