#include "trainer/config/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/nearest.h"
#include "engine/config/load.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using config::non_negative;
using config::positive;

constexpr config::Bounds kShare{0.0, 1.0, true};
constexpr config::Bounds kCount{1.0, 1e6, false};

/// The directories of the files that ship: beside an installed program, in the source tree of one that was built there,
/// and here.
std::vector<fs::path> shipped_directories() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> directories;
  for (const fs::path& directory : {program / "../share/mtf-train/configs/hardware",
                                    program / "../../configs/hardware", fs::path("configs/hardware")}) {
    if (fs::is_directory(directory, ignored)) directories.push_back(directory.lexically_normal());
  }
  return directories;
}

/// The file that `path` names. Reports a name that no file has.
std::optional<std::string> hardware_file(const config::Path& path, Diagnostics& diagnostics) {
  if (is_hardware_file(path)) {
    std::error_code ignored;
    if (fs::exists(path.text, ignored)) return path.text;
    diagnostics.error(path.mark, fmt::format("`hardware`: there is no file `{}`", path.text),
                      did_you_mean_file(path.text));
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const fs::path& directory : shipped_directories()) {
    std::error_code ignored;
    const fs::path file = directory / (path.text + ".yaml");
    if (fs::exists(file, ignored)) return file.string();
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  diagnostics.error(
      path.mark, fmt::format("`hardware`: no file that ships is named `{}`", path.text),
      names.empty() ? "the path of a file, such as `hardware.yaml`" : did_you_mean(path.text, names));
  return std::nullopt;
}

}  // namespace

void describe(config::Visitor& visit, PeakFlops& options) {
  visit("float32", options.float32, "of float32, such as 66.9e12", positive);
  visit("tf32", options.tf32, "of float32 with `precision.matmul: tf32`; null: as float32", positive);
  visit("bfloat16", options.bfloat16,
        "of bfloat16, on processors with `precision.matmul: bfloat16`; null: as float32", positive);
}

void describe(config::Visitor& visit, ProductRates& options) {
  visit("share", options.share, "share of the peak that large products reach", kShare);
  visit("rows", options.rows,
        "a product of m x n x k takes the time of (m + rows) x (n + columns) x (k + summed): packing, edges "
        "of tiles, "
        "filling the device",
        non_negative);
  visit("columns", options.columns, "see rows", non_negative);
  visit("summed", options.summed, "see rows", non_negative);
  visit("exposed", options.exposed,
        "the share of the time of bytes in memory that a product takes beside its arithmetic",
        config::Bounds{0.0, 1.0});
}

void describe(config::Visitor& visit, ConvolutionRates& options) {
  visit("direct", options.direct, "of windows as rows of a matrix; null: as products");
  visit("winograd", options.winograd,
        "of windows of 3 x 3 next to each other, which a processor computes by Winograd's method: 16 "
        "products of tiles of 2 x 2 windows x outputs x inputs; null: as direct ones");
  visit("depthwise", options.depthwise,
        "the share of the peak that convolutions reach whose channels have a filter each; null: as products",
        kShare);
}

void describe(config::Visitor& visit, AttentionRates& options) {
  visit("forward", options.forward, "share of the peak", kShare);
  visit("backward", options.backward, "share of the peak", kShare);
  visit("softmax", options.softmax, "FLOPs that stand for the softmax of a logit", non_negative);
  visit("query", options.query, "FLOPs that stand for what is done for each query of a head besides",
        non_negative);
}

void describe(config::Visitor& visit, MemoryRate& options) {
  visit("cache", options.cache, "bytes in a second of operands and results that are in the cache", positive);
  visit("memory", options.memory, "bytes in a second of those in memory", positive);
}

void describe(config::Visitor& visit, KindRates& options) {
  visit("elementwise", options.elementwise, "sums, activations, masks");
  visit("norms", options.norms, "normalizations and their gradients");
  visit("reductions", options.reductions, "softmax, losses");
  visit("sums", options.sums, "sums and maxima along dimensions or in windows, moments");
  visit("movement", options.movement, "copies, transposes, lookups in tables");
  visit("updates", options.updates, "the optimizer");
  visit("collectives", options.collectives, "sums and copies between the positions of a process");
}

void describe(config::Visitor& visit, CacheOptions& options) {
  visit("size", options.size,
        "bytes that a core has of it: an operand is there if no more other bytes were used since; 0: none "
        "counts");
  visit("bandwidth", options.bandwidth, "bytes that a core reads and writes in a second; 0: as the memory",
        non_negative);
}

void describe(config::Visitor& visit, DeviceOptions& options) {
  visit("name", options.name, "what reports call it");
  visit("kind", options.kind,
        "cpu: a machine, whose cores a process shares out among its positions; cuda: a GPU");
  visit("memory", options.memory, "bytes, such as 80GB; null: as this machine or its GPU has");
  visit("host_memory", options.host_memory,
        "bytes of a GPU's machine for each of its GPUs, such as 250GB; null: not checked");
  visit("cores", options.cores, "cores of the machine; 1 for a GPU, on which positions take turns", kCount);
  visit(
      "together", options.together,
      "share of its speed that a core keeps where all of them compute, with lower clock rates or as threads "
      "of one core",
      kShare);
  visit("flops", options.flops, "FLOPs of products that a core can do in a second, a number or by type");
  visit("products", options.products, "what products reach of this, by their shape");
  visit("convolutions", options.convolutions, "what convolutions reach of this on processors");
  visit("attention", options.attention, "what attention reaches of this");
  visit("bandwidth", options.bandwidth, "bytes that all cores together read and write in memory in a second",
        positive);
  visit("host_link", options.host_link,
        "bytes in a second from the memory of a GPU's machine to it, and as many back at a time, for "
        "`offload` and checkpoints",
        positive);
  visit("cache", options.cache, "the cache, where its rate counts");
  visit("rates", options.rates,
        "bytes that a core reads and writes in a second, by kind of operation; null: as cache and memory "
        "allow");
  visit("overhead", options.overhead, "seconds that each operation takes besides", non_negative);
  visit("barrier", options.barrier, "seconds that cores take to meet after they have shared work",
        non_negative);
  visit("step", options.step, "seconds that each step takes besides", non_negative);
  visit("wake", options.wake,
        "seconds that a step of several threads takes longer because the others wake late", non_negative);
}

void describe(config::Visitor& visit, LinkOptions& options) {
  visit("name", options.name, "what reports call it");
  visit("processes", options.processes,
        "so many consecutive processes it joins, such as 8 for the GPUs of a machine; null: all", kCount);
  visit("bandwidth", options.bandwidth, "bytes that a process sends over it in a second", positive);
  visit("cached", options.cached,
        "the same for messages between processes of one machine that stay in its caches; null: as others",
        positive);
  visit("latency", options.latency, "seconds until a message arrives", non_negative);
  visit("core", options.core, "share of a core that is busy while messages travel: 1 for sockets, 0 for RDMA",
        config::probability);
  visit("inside", options.inside, "it joins processes of one machine, which share its cores");
}

void describe(config::Visitor& visit, HardwareOptions& options) {
  visit("device", options.device, "the device of a process");
  visit("links", options.links, "between processes, from the inside out");
  visit.check([&options](const config::Report& report) {
    int64_t inside = 1;
    for (size_t i = 0; i < options.links.size(); ++i) {
      const std::optional<int64_t>& joined = options.links[i].processes;
      if (!joined && i + 1 < options.links.size()) {
        report.error("links", "`hardware.links`: a link that joins all processes stands before others",
                     "`processes`, the number that it joins, in all but the last");
      } else if (joined && (*joined <= inside || *joined % inside != 0)) {
        report.error("links",
                     fmt::format("`hardware.links`: a link joins {} processes, and the one inside it {}",
                                 *joined, inside),
                     fmt::format("a multiple such as {}", 2 * inside));
      }
      inside = joined.value_or(inside);
    }
  });
}

int processes_of_machine(const HardwareOptions& hardware, int processes) {
  int64_t joined = 1;
  for (const LinkOptions& link : hardware.links) {
    if (link.inside) joined = link.processes.value_or(processes);
  }
  return static_cast<int>(std::min<int64_t>(joined, processes));
}

bool is_hardware_file(const config::Path& path) {
  return path.text.find('/') != std::string::npos || path.text.ends_with(".yaml");
}

std::optional<HardwareOptions> load_hardware(const HardwareChoice& choice, Diagnostics& diagnostics) {
  if (const auto* given = std::get_if<HardwareOptions>(&choice)) return *given;
  const std::optional<std::string> file = hardware_file(std::get<config::Path>(choice), diagnostics);
  if (!file) return std::nullopt;
  const size_t errors = diagnostics.errors().size();
  const config::Node root = config::load({*file}, {}, diagnostics);
  const config::Node* section = root.find("hardware");
  if (diagnostics.errors().size() > errors) return std::nullopt;
  if (section == nullptr || !section->is_map()) {
    diagnostics.error(section != nullptr ? section->mark() : Mark{*file, 0, 0, 1, {}},
                      "has no section `hardware`, a map",
                      "for example `hardware: {device: {flops: 40e12, bandwidth: 2e12}}`");
    return std::nullopt;
  }
  auto options = config::parse<HardwareOptions>(*section, diagnostics, "hardware");
  if (diagnostics.errors().size() > errors) return std::nullopt;
  return options;
}

}  // namespace mtf
