#include "trainer/costs/cost_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/backend/kernel.h"
#include "engine/runtime/collective_of.h"

namespace mtf {
namespace {

/// Kernels of the processor that are bound by bytes are cut into tasks of about so many: an operand and a result in float32.
constexpr double kBytesPerTask = 2 * 4 * kElementsPerTask;
/// A message stays in the cache if a process's share of that holds so many copies of it: its own, those of others, and what the
/// step touches meanwhile.
constexpr double kCopiesOfMessage = 5;
/// Processes of a machine wait in each step for the one that is last: this share of the time in which more threads want to run
/// than there are cores, as some cores are idle while others have too many, but at most one tick of Linux, which then spreads the
/// threads again. Two and four processes on two cores were measured (docs/hardware.md).
constexpr double kShareOfTurn = 0.2, kLongestTurn = 4e-3;
/// Adding a tile to a total in L1 takes as long as multiplying this depth.
constexpr double kDepthOfAddition = 2;
/// Threads seldom begin together, so that the last one works so much of a task longer than the others.
constexpr double kLateTask = 0.5;
/// By how much the last one of threads that do the same for a position each takes longer than they do on average: measured with
/// convolutions and language models on two threads.
constexpr double kUneven = 0.03;

/// The number of tasks into which a kernel of the processor is cut.
double tasks_of(const Work& work) {
  const double tasks = has_flops(work.kind) ? std::min<double>(kMostFlopTasks, work.flops / kFlopsPerTask)
                                            : work.bytes / kBytesPerTask;
  return std::max(1.0, std::floor(tasks));
}

double divided(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

CostModel::CostModel(HardwareOptions hardware, Placement placement)
    : hardware_(std::move(hardware)), placement_(std::move(placement)) {}

double CostModel::rate(FactorType factors) const {
  const PeakFlops& flops = hardware_.device.flops;
  switch (factors) {
    case FactorType::kTf32:
      return flops.tf32.value_or(flops.float32);
    case FactorType::kStoredBFloat16:
      if (!is_gpu()) break;
      [[fallthrough]];
    case FactorType::kBFloat16:
      return flops.bfloat16.value_or(flops.float32);
    case FactorType::kFloat32:
      break;
  }
  return flops.float32;
}

double CostModel::speed(int active) const {
  const DeviceOptions& device = hardware_.device;
  if (is_gpu() || active <= 1 || device.cores <= 1) return 1;
  return 1 - (1 - device.together) * divided(std::min<int64_t>(active, device.cores) - 1, device.cores - 1);
}

double CostModel::step_seconds() const {
  const DeviceOptions& device = hardware_.device;
  return device.step + (!is_gpu() && placement_.threads > 1 ? device.wake : 0);
}

double CostModel::peak_flops(FactorType factors) const {
  const int64_t cores =
      is_gpu()
          ? 1
          : std::min<int64_t>(placement_.threads,
                              std::max<int64_t>(1, hardware_.device.cores / placement_.processes_of_machine));
  return rate(factors) * static_cast<double>(cores * placement_.mesh.processes());
}

MemoryRate CostModel::memory_rate(WorkKind kind) const {
  const DeviceOptions& device = hardware_.device;
  const KindRates& rates = device.rates;
  const auto of = [&]() -> const std::optional<MemoryRate>& {
    static const std::optional<MemoryRate> none;
    switch (kind) {
      case WorkKind::kElementwise:
        return rates.elementwise;
      case WorkKind::kNorm:
        return rates.norms;
      case WorkKind::kReduction:
        return rates.reductions;
      case WorkKind::kSum:
        return rates.sums;
      case WorkKind::kMovement:
        return rates.movement;
      case WorkKind::kUpdate:
        return rates.updates;
      case WorkKind::kCollective:
        return rates.collectives;
      case WorkKind::kProduct:
      case WorkKind::kAttention:
        break;
    }
    return none;
  };
  const double cache = device.cache.bandwidth > 0 ? device.cache.bandwidth : device.bandwidth;
  return of().value_or(MemoryRate{cache, device.bandwidth});
}

double CostModel::bytes_seconds(WorkKind kind, double bytes, double cold, int active) const {
  const MemoryRate rate = memory_rate(kind);
  return (bytes - cold) / (rate.cache * speed(active)) +
         cold / std::min(rate.memory, hardware_.device.bandwidth / active);
}

CostModel::ProductCost CostModel::product_cost(const Work& work) const {
  const ConvolutionRates& convolutions = hardware_.device.convolutions;
  ProductCost cost{hardware_.device.products, work.product, work.flops};
  if (is_gpu()) return cost;
  if (work.winograd && convolutions.winograd) {
    const ProductExtents& extents = *work.winograd;
    cost.rates = *convolutions.winograd;
    cost.extents = extents;
    cost.flops = 2 * extents.batch * extents.rows * extents.columns * extents.summed;
  } else if (work.product_kind == ProductKind::kConvolution) {
    if (convolutions.direct) cost.rates = *convolutions.direct;
  } else if (work.product_kind == ProductKind::kDepthwise && convolutions.depthwise) {
    cost.rates = {.share = *convolutions.depthwise};
  }
  return cost;
}

double CostModel::product_seconds(const ProductCost& cost, FactorType factors) const {
  const auto& [rates, extents, flops] = cost;
  // The sum of several terms is written once, and a tile of each is added to it.
  const double terms = extents.terms, summed = rates.summed / terms + (terms > 1 ? kDepthOfAddition : 0);
  const auto larger = [](double extent, double more) { return extent > 0 ? 1 + more / extent : 1; };
  const double padding = larger(extents.rows, rates.rows) * larger(extents.columns, rates.columns) *
                         larger(extents.summed, summed);
  return flops * padding / (rate(factors) * rates.share);
}

double CostModel::attention_seconds(const Work& work) const {
  const AttentionRates& rates = hardware_.device.attention;
  const double flops =
      (work.flops + work.logits * rates.softmax) * work.computed + work.queries * rates.query;
  return flops / (rate(work.factors) * (work.is_gradient ? rates.backward : rates.forward));
}

double CostModel::seconds(const Work& work, double cold, int active) const {
  cold = std::min(cold, work.bytes);
  const double bytes = bytes_seconds(work.kind, work.bytes, cold, active);
  double flops = 0, exposed = hardware_.device.products.exposed;
  if (work.kind == WorkKind::kProduct) {
    const ProductCost cost = product_cost(work);
    flops = product_seconds(cost, work.factors) / speed(active);
    exposed = cost.rates.exposed;
  }
  if (work.kind == WorkKind::kAttention) flops = attention_seconds(work) / speed(active);
  const double beside = exposed * std::min(flops, bytes_seconds(work.kind, cold, cold, active));
  return hardware_.device.overhead + std::max({flops + beside, bytes, link_seconds(work)});
}

double CostModel::least_seconds(const Work& work) const {
  const DeviceOptions& device = hardware_.device;
  const MemoryRate memory = memory_rate(work.kind);
  const double rate = device.cache.size.value > 0 ? std::max(memory.cache, memory.memory) : memory.memory;
  double flops = 0;
  if (work.kind == WorkKind::kProduct) {
    const ProductCost cost = product_cost(work);
    flops = cost.flops / (this->rate(work.factors) * cost.rates.share);
  }
  if (work.kind == WorkKind::kAttention) flops = attention_seconds(work);
  const int threads = is_gpu() ? 1 : placement_.threads;
  return crowding() * std::max({flops, work.bytes / rate, link_seconds(work)}) / threads;
}

double CostModel::transfer(const Program& program, const Instruction& instruction) const {
  const auto copies = static_cast<double>(count(computed_over(program, instruction, placement_.replicates)));
  return local_bytes(program, instruction.inputs) * copies / hardware_.device.host_link;
}

double CostModel::turn_seconds(double computing, double messages) const {
  return std::min(kShareOfTurn * (crowding() > 1 ? computing + messages : messages), kLongestTurn);
}

double CostModel::cache_bytes() const {
  return static_cast<double>(hardware_.device.cache.size.value) / crowding();
}

double CostModel::crowding() const {
  if (is_gpu()) return 1;
  return std::max(
      1.0, divided(int64_t{placement_.threads} * placement_.processes_of_machine, hardware_.device.cores));
}

double CostModel::cores_of_process() const {
  return is_gpu() ? 1 : divided(hardware_.device.cores, placement_.processes_of_machine);
}

void CostModel::segment(const std::vector<ProcessWork>& works, std::vector<double>& times) const {
  times.clear();
  if (works.empty()) return;
  const DeviceOptions& device = hardware_.device;
  const int threads = is_gpu() ? 1 : placement_.threads;
  const int64_t calls = works.front().calls;
  const bool meets = threads > 1;
  const double crowding = this->crowding();
  const auto active = [&](double busy) {
    return static_cast<int>(
        std::min(busy * placement_.processes_of_machine, static_cast<double>(device.cores)));
  };
  if (is_gpu() || calls >= threads) {
    const double turns = std::ceil(divided(calls, threads)) * (meets ? 1 + kUneven : 1);
    for (const auto& [work, cold, _] : works)
      times.push_back(crowding * turns * seconds(work, cold, active(threads)));
    if (meets) times.front() += device.barrier;
    return;
  }
  for (const auto& [work, cold, _] : works) {
    const double tasks = static_cast<double>(calls) * tasks_of(work);
    const double of_thread =
        tasks > 1 ? std::max(std::ceil(tasks / threads), tasks / threads + kLateTask) : 1;
    const double in_turn = std::max(of_thread, tasks / cores_of_process());
    const double turns = in_turn / tasks * static_cast<double>(calls);
    const double busy = std::min(std::ceil(tasks), static_cast<double>(threads));
    times.push_back(turns * seconds(work, cold, tasks > 1 ? active(busy) : 1) +
                    (meets && tasks > 1 ? device.barrier : 0));
  }
}

const CostModel::Group& CostModel::group_of(AxisMask axes, AxisMask varies) const {
  const auto known = groups_.find({axes, varies});
  if (known != groups_.end()) return known->second;
  return groups_.emplace(std::pair(axes, varies), make_group(axes, varies)).first->second;
}

CostModel::Group CostModel::make_group(AxisMask axes, AxisMask varies) const {
  const Mesh& mesh = placement_.mesh.mesh();
  const int64_t hosted = placement_.mesh.positions();
  Group group{.members = mesh.size_of(axes), .processes = 1, .groups = 1, .blocks = {}};
  std::set<int64_t> blocks;  // processes with members, then the blocks of processes that each link joins
  for (int64_t member = 0; member < group.members; ++member)
    blocks.insert(mesh.first_position(member, axes) / hosted);
  group.processes = std::ssize(blocks);
  group.groups = placement_.mesh.size_of(varies & ~axes & mesh.all_axes());
  int64_t inside = 1;
  for (const LinkOptions& link : hardware_.links) {
    std::set<int64_t> joined;
    if (link.processes) {
      for (const int64_t block : blocks) joined.insert(block * inside / *link.processes);
      inside = *link.processes;
    } else {
      joined.insert(0);
    }
    group.blocks.push_back(std::ssize(blocks) / std::max<int64_t>(1, std::ssize(joined)));
    blocks = std::move(joined);
  }
  return group;
}

CollectiveTime CostModel::collective(const Program& program, const Instruction& instruction) const {
  const AxisMask axes = instruction.as<action::Communicate>()->axes;
  const Copies stored = stored_over(program, instruction.inputs[0], placement_.replicates);
  const Group& group = group_of(axes, stored.axes);
  if (!crosses_processes(program, instruction, placement_.mesh, placement_.replicates))
    return {0, within_process(program, instruction, group)};
  if (const auto* send = instruction.collective<action::Send>())
    return {between_stages(program, instruction, stored, send->to), 0};
  CollectiveTime time{
      is_gpu() ? by_library(program, instruction, group) : directly(program, instruction, group), 0};
  double core = 0;
  for (size_t i = 0; i < group.blocks.size(); ++i) {
    if (group.blocks[i] > 1) core = std::max(core, hardware_.links[i].core);
  }
  const int64_t busy = int64_t{placement_.threads} * placement_.processes_of_machine;
  if (!is_gpu() && busy >= hardware_.device.cores) time.processor = core * time.network;
  return time;
}

/// Sums read the slices of all members and write the result; where it is the same for all, it is computed once. Moves
/// read and write what each result needs.
double CostModel::within_process(const Program& program, const Instruction& instruction,
                                 const Group& group) const {
  const Copies computed = computed_over(program, instruction, placement_.replicates);
  const double results = static_cast<double>(count(computed));
  const bool sums = instruction.collective<action::AllReduce>() != nullptr ||
                    instruction.collective<action::ReduceScatter>() != nullptr;
  const double given = local_bytes(program, instruction.inputs),
               made = local_bytes(program, instruction.outputs);
  const auto members = static_cast<double>(group.members);
  const bool scatters = instruction.collective<action::ReduceScatter>() != nullptr;
  const double of_a_result = sums ? (scatters ? given : members * given) + made : 2 * made;
  const int threads = is_gpu() ? 1 : placement_.threads;
  const double bytes = of_a_result * results;
  const double tasks = std::max(1.0, std::floor(bytes / kBytesPerTask));
  const int workers = static_cast<int>(std::min<double>(threads, tasks));
  const double overhead = hardware_.device.overhead + (workers > 1 ? hardware_.device.barrier : 0);
  const double cold = of_a_result <= cache_bytes() ? 0 : bytes;
  const int active = static_cast<int>(std::min<int64_t>(workers, hardware_.device.cores));
  const double cores = std::min<double>(workers, cores_of_process());
  return overhead + bytes_seconds(WorkKind::kCollective, bytes, cold, active) / cores;
}

double CostModel::given_bytes(const Program& program, const Instruction& instruction, const Group& group) {
  return local_bytes(program, instruction.inputs) * static_cast<double>(group.groups);
}

double CostModel::sent_by_process(const Program& program, const Instruction& instruction,
                                  const Group& group) const {
  const auto p = static_cast<double>(group.processes);
  const double hosted = static_cast<double>(group.members) / p;  // members of a group in this process
  const double given = given_bytes(program, instruction, group);
  if (instruction.collective<action::AllReduce>() != nullptr) return 2 * given * (p - 1) / p;
  if (instruction.collective<action::ReduceScatter>() != nullptr) return given * (p - 1) / p;
  if (instruction.collective<action::AllGather>() != nullptr) return hosted * given * (p - 1);
  if (instruction.collective<action::AllToAll>() != nullptr) return hosted * given * (p - 1) / p;
  return bytes_sent(program, instruction) * static_cast<double>(group.groups);
}

/// A process of a stage sends what its positions have to one of another stage, or to one of each.
double CostModel::between_stages(const Program& program, const Instruction& instruction, const Copies& stored,
                                 std::optional<int64_t> to) const {
  const HostedMesh& hosted = placement_.mesh;
  const Pin& from = *stored.pin;
  const AxisMask axis = axis_bit(from.axis);
  const int sender = hosted.host(hosted.mesh().first_position(from.coordinate, axis));
  const double bytes = local_bytes(program, instruction.inputs) * static_cast<double>(count(stored));
  double seconds = 0;
  for (int64_t stage = 0; stage < hosted.mesh().size(from.axis); ++stage) {
    const int receiver = hosted.host(hosted.mesh().first_position(stage, axis));
    if (receiver == sender || (to && *to != stage)) continue;
    for (const LinkOptions& link : hardware_.links) {
      if (link.processes && sender / *link.processes != receiver / *link.processes) continue;
      seconds += link.latency + bytes / link.bandwidth;
      break;
    }
  }
  return seconds;
}

/// Each of the other processes gets as much: those behind a link over that link.
double CostModel::directly(const Program& program, const Instruction& instruction, const Group& group) const {
  const double bytes = sent_by_process(program, instruction, group);
  const bool is_cached = kCopiesOfMessage * given_bytes(program, instruction, group) <= cache_bytes();
  const double phases = instruction.collective<action::AllReduce>() != nullptr ? 2 : 1;
  const double others = std::max<double>(1, static_cast<double>(group.processes - 1));
  double seconds = 0, latency = 0, met = 1;
  for (size_t i = 0; i < group.blocks.size(); ++i) {
    if (group.blocks[i] <= 1) continue;
    const LinkOptions& link = hardware_.links[i];
    const auto blocks = static_cast<double>(group.blocks[i]);
    // Within a machine it is cores that carry the messages.
    const double slower = link.inside ? crowding() : 1;
    const double rate = link.inside && is_cached ? link.cached.value_or(link.bandwidth) : link.bandwidth;
    seconds = std::max(seconds, slower * bytes * met * (blocks - 1) / others / rate);
    latency = std::max(latency, slower * link.latency);
    met *= blocks;
  }
  return phases * latency + seconds;
}

/// Rings within each level of links, on the part that the level inside has left; small messages along trees.
double CostModel::by_library(const Program& program, const Instruction& instruction,
                             const Group& group) const {
  const bool reduces = instruction.collective<action::AllReduce>() != nullptr;
  const bool sums = reduces || instruction.collective<action::ReduceScatter>() != nullptr;
  const bool gathers = instruction.collective<action::AllGather>() != nullptr;
  if (!sums && !gathers) return directly(program, instruction, group);
  // The bytes of the whole tensor that the group sums or gathers.
  const double whole = local_bytes(program, gathers ? instruction.outputs : instruction.inputs) *
                       static_cast<double>(group.groups);
  const double passes = reduces ? 2 : 1;
  double ring = 0, ring_latency = 0, tree_latency = 0, tree = 0, left = whole;
  for (size_t i = 0; i < group.blocks.size(); ++i) {
    if (group.blocks[i] <= 1) continue;
    const LinkOptions& link = hardware_.links[i];
    const auto blocks = static_cast<double>(group.blocks[i]);
    ring = std::max(ring, passes * (blocks - 1) / blocks * left / link.bandwidth);
    ring_latency += passes * (blocks - 1) * link.latency;
    tree = std::max(tree, passes * left / link.bandwidth);
    tree_latency += passes * std::ceil(std::log2(blocks)) * link.latency;
    left /= blocks;
  }
  const double by_ring = ring + ring_latency;
  return hardware_.device.overhead + (reduces ? std::min(by_ring, tree + tree_latency) : by_ring);
}

}  // namespace mtf
