#include "trainer/calibrate/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "engine/base/core_waits.h"
#include "engine/base/counted.h"
#include "engine/base/file.h"
#include "engine/base/integer_division.h"
#include "engine/base/median.h"
#include "engine/base/seconds_since.h"
#include "engine/config/load.h"
#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/ops/binary.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/einsum.h"
#include "engine/ops/moments.h"
#include "engine/ops/normalization.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/thread_pool.h"
#include "engine/spmd/partition/partition.h"
#include "trainer/calibrate/fit_rates.h"
#include "trainer/calibrate/measure_convolutions.h"
#include "trainer/calibrate/measure_link.h"
#include "trainer/calibrate/measured_kernel.h"
#include "trainer/calibrate/rounded.h"
#include "trainer/calibrate/seconds_on.h"
#include "trainer/calibrate/timed_products.h"
#include "trainer/config/cores.h"
#include "trainer/config/devices.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kColumns = 256;
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

/// Which factors are stored with the summed dimension at the other place than in [rows, summed] and [summed, columns].
struct Transposed {
  bool a = false, b = false;
};

class Calibration {
 public:
  Calibration(Backend& backend, int rounds) : backend_(backend), rounds_(rounds) {}

  HardwareOptions device() {
    describe_machine();
    note("products");
    measure_products();
    note("attention");
    measure_attention();
    note("memory");
    measure_memory();
    measure_exposure();
    if (backend_.is_host()) {
      note("convolutions");
      result().convolutions = measure_convolutions(backend_, {.rounds = rounds_,
                                                              .peak = result().flops.float32,
                                                              .bandwidth = result().bandwidth,
                                                              .bytes_between = bytes_between(),
                                                              .bytes_until_cold = bytes_until_cold()});
    }
    note("overheads");
    measure_overheads();
    return hardware_;
  }

 private:
  static void note(const char* what) { fmt::print(stderr, "measures {}\n", what); }

  DeviceOptions& result() { return hardware_.device; }
  /// Between two uses of the same operand: it has left the caches of a core, and fills its share of the one that cores
  /// share.
  double bytes_between() {
    const double shared = static_cast<double>(result().cache.size.value);
    const double own = backend_.is_host() ? static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE)) : 0;
    return std::max(shared, 2 * own);
  }

  /// Between two uses of the same operand that has left all caches.
  double bytes_until_cold() { return 4 * static_cast<double>(result().cache.size.value * result().cores); }

  void describe_machine() {
    DeviceOptions& device = result();
    hardware_.links.clear();
    if (const DeviceInfo* gpu = backend_.device_info()) {
      device.kind = DeviceKind::kCuda;
      device.name = gpu->name;
      device.memory = config::Bytes{gpu->memory_bytes};
      device.cache.size = {kGpuCacheBytes};
      return;
    }
    const int cores = usable_cores(1);
    device.name = fmt::format("{}, {}", processor_name(), counted(cores, "core"));
    device.memory = config::Bytes{int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE)};
    device.cores = cores;
    device.cache.size = {std::clamp<int64_t>(last_cache_bytes() / cores, 1 << 20, 64 << 20)};
  }

  void measure_products() {
    std::vector<TimedProduct> products;
    for (const double m : {32, 256, 2048}) {
      for (const double n : {64, 256, 1024}) {
        for (const double k : {64, 256, 1024}) products.push_back(product(m, n, k, DType::kFloat32));
        // The gradient of the activations reads the matrix the other way, that of the matrix sums over the rows.
        products.push_back(product(m, n, 256, DType::kFloat32, {.b = true}));
        products.push_back(product(256, n, m, DType::kFloat32, {.a = true}));
      }
    }
    products.push_back(product(1024, 256, 2048, DType::kFloat32, {.a = true}));
    const FittedProducts fitted = fit_products(timed_in_turns(products, rounds_));
    DeviceOptions& device = result();
    device.flops.float32 = rounded(fitted.flops);
    device.products = fitted.rates;
    device.products.share = std::min(1.0, rounded(device.products.share));
    const auto rate_of = [&](DType dtype, MatmulPrecision precision) {
      const TimedProduct timed = product(2048, 1024, 256, dtype, {}, precision);
      return rounded(timed.kernel->work().flops / timed.kernel->seconds(rounds_) / device.products.share);
    };
    if (device.kind == DeviceKind::kCuda) {
      device.flops.bfloat16 = rate_of(DType::kBFloat16, MatmulPrecision::kFull);
      device.flops.tf32 = rate_of(DType::kFloat32, MatmulPrecision::kTf32);
    } else {
      device.flops.bfloat16 = rate_of(DType::kFloat32, MatmulPrecision::kBFloat16);
    }
  }

  /// Large products with operands in memory take longer than those in the cache by a share of the time of their bytes.
  void measure_exposure() {
    std::vector<TimedProduct> warm, cold;
    const auto add = [&](double m, double n, double k, Transposed transposed = {}) {
      warm.push_back(product(m, n, k, DType::kFloat32, transposed));
      cold.push_back(
          product(m, n, k, DType::kFloat32, transposed, MatmulPrecision::kFull, bytes_until_cold()));
    };
    add(2048, 1024, 256);
    add(2048, 256, 1024);
    add(2048, 256, 256, {.b = true});
    add(256, 1024, 2048, {.a = true});
    result().products.exposed = rounded(exposed_share(warm, cold, result().bandwidth, rounds_));
  }

  TimedProduct product(double m, double n, double k, DType dtype, Transposed transposed = {},
                       MatmulPrecision precision = MatmulPrecision::kFull,
                       std::optional<double> bytes_between = {}) {
    Graph graph;
    graph.set_matmul_precision(precision);
    const Dimension rows{"rows", static_cast<int64_t>(m)}, columns{"columns", static_cast<int64_t>(n)},
        summed{"summed", static_cast<int64_t>(k)};
    const Tensor a = graph.input("a", transposed.a ? Shape{summed, rows} : Shape{rows, summed}, dtype),
                 b = graph.input("b", transposed.b ? Shape{columns, summed} : Shape{summed, columns}, dtype);
    einsum({a, b}, {rows, columns});
    const auto contraction = std::ranges::find(graph.root(), "einsum", &Operation::name);
    return {{m, n, k},
            std::make_unique<MeasuredKernel>(**contraction, backend_,
                                             bytes_between.value_or(this->bytes_between()))};
  }

  /// Long sequences with a causal mask, and short ones without; all with the segments of packed texts. Operands are in memory,
  /// as those of all heads of a batch are in a step.
  void measure_attention() {
    struct Sizes {
      int64_t batch, length, width;
      bool causal;
    };
    std::vector<MeasuredAttention> measured;
    for (const Sizes& sizes : {Sizes{8, 256, 64, true}, Sizes{8, 256, 32, true}, Sizes{16, 64, 64, false},
                               Sizes{32, 64, 32, false}, Sizes{32, 128, 32, false}}) {
      Graph graph;
      const Dimension b{"batch", sizes.batch}, h{"heads", 8}, l{"length", sizes.length},
          m{"memory_length", sizes.length}, d{"d_kv", sizes.width};
      const Tensor q = graph.input("q", {b, l, h, d}), k = graph.input("k", {b, m, h, d}),
                   v = graph.input("v", {b, m, h, d});
      const Tensor segment = graph.input("segment", {b, l}, DType::kInt32);
      const Tensor y = attention({.q = q,
                                  .k = k,
                                  .v = v,
                                  .query_segment = segment,
                                  .memory_segment = rename(segment, l.name, m.name)},
                                 {.causal = sizes.causal});
      const Tensor dq = gradients({y}, {q, k, v})[0];
      for (const Tensor& tensor : {y, dq}) {
        MeasuredKernel kernel(tensor.operation(), backend_, bytes_until_cold());
        const Work& work = kernel.work();
        measured.push_back({work.computed * work.flops, work.computed * work.logits, work.queries,
                            kernel.seconds(rounds_), work.is_gradient});
      }
    }
    AttentionRates& rates = result().attention;
    rates = fit_attention(measured, result().flops.float32);
    rates.forward = rounded(rates.forward);
    rates.backward = rounded(rates.backward);
  }

  /// Bytes in a second of some operations on tensors of `bytes` each.
  double rate(int64_t bytes, const std::function<Tensors(Graph& graph, const Shape& shape)>& build,
              bool in_place) {
    Graph graph;
    const Shape shape{{"rows", std::max<int64_t>(1, bytes / (kColumns * 4))}, {"columns", kColumns}};
    double moved = 0, seconds = 0;
    for (const Tensor& tensor : build(graph, shape)) {
      MeasuredKernel kernel(tensor.operation(), backend_, bytes_between(), in_place);
      moved += kernel.bytes();
      seconds += kernel.seconds(rounds_);
    }
    return rounded(moved / seconds);
  }

  MemoryRate rates(const std::function<Tensors(Graph& graph, const Shape& shape)>& build,
                   bool in_place = false) {
    const int64_t cache = result().cache.size.value;
    return {rate(cache / 8, build, in_place), rate(2 * cache, build, in_place)};
  }

  void measure_memory() {
    KindRates& kinds = result().rates;
    kinds.elementwise = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), y = graph.input("y", shape);
      return {add(x, y), relu(x)};
    });
    kinds.norms = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), scale = graph.input("scale", {shape[1]});
      const Tensor y = rms_norm(x, "columns", scale);
      return {y, gradients({y}, {x})[0]};
    });
    kinds.reductions = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape), ids = graph.input("ids", {shape[0]}, DType::kInt32);
      const CrossEntropy loss = softmax_cross_entropy(x, ids, "columns");
      return {loss.loss, gradients({loss.loss}, {x})[0]};
    });
    constexpr int64_t kWidth = 32;
    kinds.sums = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Dimension blocks{"rows", ceil_divide(shape[0].size, kWidth)}, width{"width", kWidth};
      const Tensor x = graph.input("x", shape), image = graph.input("image", {blocks, width, shape[1]});
      const Tensor y = window_max(image, {window_over(width, {.size = 2, .stride = 2})});
      return {reduce_sum(x, Shape{shape[1]}), moments(x, x, Shape{shape[1]}).sum, y,
              gradients({y}, {image})[0]};
    });
    kinds.movement = rates([](Graph& graph, const Shape& shape) -> Tensors {
      const Tensor x = graph.input("x", shape);
      return {transpose(x, {shape[1], shape[0]})};
    });
    kinds.updates = rates(
        [](Graph& graph, const Shape& shape) -> Tensors {
          const Tensor w = graph.input("w", shape), g = graph.input("g", shape), m = graph.input("m", shape),
                       v = graph.input("v", shape), rate = graph.input("rate", {});
          return {adam_update(w, g, m, v, rate).weight, sum_of_squares(g)};  // for the norm of the gradients
        },
        true);
    kinds.collectives = collective_rates();
    result().cache.bandwidth = kinds.elementwise->cache;
    result().bandwidth = backend_.is_host() ? shared_bandwidth() : kinds.elementwise->memory;
  }

  /// The sum of two positions' slices.
  MemoryRate collective_rates() {
    const auto of = [&](int64_t bytes) {
      Collective collective;
      collective.group = {2};
      collective.input = {bytes / 4};
      const std::unique_ptr<PreparedCollective> sum = backend_.prepare(collective);
      std::vector<std::unique_ptr<DeviceMemory>> memory;
      const std::vector<std::byte> zeros(
          static_cast<size_t>(bytes));  // pages that nobody has written are one page
      for (int i = 0; i < 3; ++i) {
        memory.push_back(backend_.allocate(bytes));
        backend_.write(memory.back()->data(), zeros.data(), bytes);
      }
      const std::vector<const std::byte*> inputs{memory[0]->data(), memory[1]->data()};
      const double seconds =
          least_seconds(backend_, rounds_, [&] { sum->run(inputs, 0, memory[2]->data(), 0, sum->tasks()); });
      return rounded(3 * static_cast<double>(bytes) / seconds);
    };
    const int64_t cache = result().cache.size.value;
    return {of(cache / 8), of(2 * cache)};
  }

  /// Bytes that all cores together read and write in a second of the day.
  double shared_bandwidth() {
    const auto cores = static_cast<int>(result().cores);
    ThreadPool pool(cores, [this] { backend_.prepare_thread(); });
    Graph graph;
    const int64_t bytes = 2 * result().cache.size.value;
    const Shape shape{{"rows", bytes / (kColumns * 4)}, {"columns", kColumns}};
    const Tensor sum = add(graph.input("x", shape), graph.input("y", shape));
    std::vector<std::unique_ptr<MeasuredKernel>> kernels;
    for (int i = 0; i < cores; ++i)
      kernels.push_back(std::make_unique<MeasuredKernel>(sum.operation(), backend_, 0));
    double most = result().rates.elementwise->memory;  // of one core
    for (int round = 0; round < 5; ++round) {
      const auto begin = Clock::now();
      pool.run(cores, [&](int64_t task, int) { kernels[static_cast<size_t>(task)]->run(); });
      most = std::max(most, cores * kernels[0]->bytes() / seconds_since(begin));
    }
    return rounded(most);
  }

  /// The time of a program of `count` small operations, on one position.
  double program_seconds(int count) {
    Graph graph;
    Tensor x = graph.input("x", {{"n", 16}});
    const Tensor y = graph.input("y", {{"n", 16}});
    for (int i = 0; i < count; ++i) x = i % 2 == 0 ? add(x, y) : relu(x);
    graph.set_output("x", x);
    const Program program = partition(graph, Layouts::single());
    VariableStore variables(backend_, program.mesh, program.variables);
    Executor executor(program, backend_, variables, {});
    uint64_t step = 0;
    return least_seconds(backend_, rounds_, [&] { executor.run(++step); });
  }

  void measure_overheads() {
    constexpr int kFew = 8, kMany = 264;
    const double few = program_seconds(kFew), many = program_seconds(kMany);
    DeviceOptions& device = result();
    device.overhead = rounded(std::max(0.0, (many - few) / (kMany - kFew)));
    device.step = rounded(std::max(0.0, few - kFew * device.overhead));
    if (!backend_.is_host() || device.cores == 1) return;
    constexpr double kBreak = 150e-6;  // workers fall asleep in it, as between steps
    const auto cores = static_cast<int>(device.cores);
    device.together = rounded(speed_together(cores));
    device.barrier = rounded(sharing_seconds(cores, 2000, 4, 0));
    device.wake = rounded(sharing_seconds(cores, 200, 200, kBreak));
  }

  /// Returns the share of its speed that a core keeps where all multiply matrices in their caches.
  double speed_together(int cores) {
    constexpr double kSeconds = 0.05;
    ThreadPool pool(cores, [this] { backend_.prepare_thread(); });
    std::vector<TimedProduct> products;
    for (int i = 0; i < cores; ++i)
      products.push_back(product(256, 256, 256, DType::kFloat32, {}, MatmulPrecision::kFull, 0));
    std::vector<double> speeds(static_cast<size_t>(cores));
    const auto multiply = [&](Clock::time_point begin, size_t core) {
      double runs = 0;
      const double busy = seconds_on(CLOCK_THREAD_CPUTIME_ID);
      for (; seconds_since(begin) < kSeconds; ++runs) products[core].kernel->run();
      speeds[core] = runs / std::max(1e-9, seconds_on(CLOCK_THREAD_CPUTIME_ID) - busy);
    };
    double alone = 0, together = 0;
    for (int round = 0; round <= rounds_; ++round) {
      multiply(Clock::now(), 0);
      alone = std::max(alone, speeds[0]);
      const auto begin = Clock::now();
      pool.run(cores, [&](int64_t core, int) { multiply(begin, static_cast<size_t>(core)); });
      together = std::max(together, *std::ranges::min_element(speeds));
    }
    return together > 0 ? std::min(1.0, together / alone) : 1;  // other programs had the cores
  }

  /// Returns by how much a section of tasks, which take some microseconds each, takes longer than one core's share of them:
  /// until the workers have begun, and until the last one ends. Before each section the caller computes for `pause` seconds.
  static double sharing_seconds(int cores, int sections, int tasks_of_core, double pause) {
    const auto task = [] {
      volatile double sum = 0;
      for (int i = 0; i < 1500; ++i) sum = sum + i;
    };
    ThreadPool pool(cores, [] {});
    std::vector<double> alone, shared;
    for (int i = 0; i < sections; ++i) {
      const auto begin = Clock::now();
      for (int t = 0; t < tasks_of_core; ++t) task();
      alone.push_back(seconds_since(begin));
      while (seconds_since(begin) < alone.back() + pause) {
      }
      const auto section = Clock::now();
      pool.run(int64_t{cores} * tasks_of_core, [&](int64_t, int) { task(); });
      shared.push_back(seconds_since(section));
    }
    return std::max(0.0, median(shared) - median(alone));
  }

  Backend& backend_;
  const int rounds_;
  HardwareOptions hardware_;
};

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
  HardwareOptions hardware;
  const CoreWaits waits;
  processes.first_then_others("calibrate", [&] {
    if (processes.is_first()) hardware = Calibration(*backend, config.calibrate.rounds).device();
  });
  if (processes.size() > 1) {
    processes.agree({{"mode", "calibrate"}});
    if (processes.is_first())
      fmt::print(stderr, "measures the link between {} processes\n", processes.size());
    hardware.links = {measure_link(*backend, processes)};
  }
  if (!processes.is_first()) return;
  if (const std::string disturbed = waits.description(); !disturbed.empty())
    fmt::print(stderr, "warning: {}; calibrate again when the machine is quiet\n", disturbed);
  const std::string& file = config.calibrate.output.text;
  const std::string text = profile_text(hardware);
  if (const int error = write_file(file, std::as_bytes(std::span(text)))) {
    throw Error(ErrorKind::kSystem, config.mark("calibrate.output"),
                fmt::format("cannot write {}: {}", file, system_message(error)));
  }
  const DeviceOptions& device = hardware.device;
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
