#include "tests/support/mesh_collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/hash.h"
#include "engine/comm/process/sent_bytes.h"
#include "engine/comm/remote_groups.h"
#include "engine/spmd/exchange.h"

namespace mtf::testing {
namespace {

using Kind = Collective::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::byte kUntouched{0x5a};

int64_t input_bytes(const Collective& c) {
  int64_t bytes = static_cast<int64_t>(size_of(c.dtype));
  for (int64_t size : c.input) bytes *= size;
  return bytes;
}

int64_t result_bytes(const Collective& c) {
  if (c.kind == Kind::kReduceScatter) return input_bytes(c) / c.members();
  return c.kind == Kind::kAllGather ? input_bytes(c) * c.members() : input_bytes(c);
}

/// Fills with numbers of many magnitudes, so that the order of a sum affects its bits.
template <class T>
void fill(Bytes& bytes, uint64_t state) {
  T* data = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    const double x = std::ldexp(static_cast<double>(static_cast<int32_t>(state >> 32)),
                                -static_cast<int>(state >> 28 & 15));
    if constexpr (std::is_same_v<T, BFloat16>) {
      data[i] = BFloat16(static_cast<float>(x));
    } else if constexpr (std::is_integral_v<T>) {
      data[i] = static_cast<T>(x / 64);
    } else {
      data[i] = static_cast<T>(x);
    }
  }
}

/// The input of a position; positions with the same coordinates along `varies` have the same.
Bytes input_of(const MeshCollective& c, size_t part, int round, int64_t position) {
  const std::array<int64_t, 4> names{c.seed, static_cast<int64_t>(part), round,
                                     c.mesh.project(position, c.varies)};
  const uint64_t state = hash64({reinterpret_cast<const char*>(names.data()), sizeof(names)});
  Bytes bytes(input_bytes(c.parts[part]));
  switch (c.parts[part].dtype) {
    case DType::kFloat32:
      fill<float>(bytes, state);
      break;
    case DType::kBFloat16:
      fill<BFloat16>(bytes, state);
      break;
    case DType::kFloat64:
      fill<double>(bytes, state);
      break;
    default:
      fill<int32_t>(bytes, state);
  }
  return bytes;
}

/// The result of a position, computed in one process.
Bytes result_of(const MeshCollective& c, size_t part, int round, int64_t position) {
  const AxisMask others = ~c.axes & c.mesh.all_axes();
  const int64_t base = c.mesh.first_position(c.mesh.project(position, others), others);
  std::vector<Bytes> inputs;
  std::vector<const std::byte*> pointers;
  for (int64_t m = 0; m < c.parts[part].members(); ++m) {
    inputs.push_back(input_of(c, part, round, base + c.mesh.first_position(m, c.axes)));
    pointers.push_back(inputs.back().data());
  }
  Bytes result(result_bytes(c.parts[part]));
  const auto prepared = prepare_in_process(c.parts[part]);
  prepared->run(pointers, c.mesh.project(position, c.axes), result.data(), 0, prepared->tasks());
  return result;
}

/// The largest difference between elements, relative to the largest expected one.
template <class T>
double difference(const Bytes& actual, const Bytes& expected) {
  const auto* a = reinterpret_cast<const T*>(actual.data());
  const auto* b = reinterpret_cast<const T*>(expected.data());
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < expected.size() / sizeof(T); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

bool is_close(const Collective& c, double tolerance, const Bytes& actual, const Bytes& expected) {
  const bool sums = c.kind == Kind::kAllReduce || c.kind == Kind::kReduceScatter;
  if (sums && c.reduction == Reduction::kSum && c.dtype == DType::kFloat32)
    return difference<float>(actual, expected) <= tolerance;
  if (sums && c.reduction == Reduction::kSum && c.dtype == DType::kFloat64)
    return difference<double>(actual, expected) <= tolerance;
  return false;
}

}  // namespace

AxisMask MeshCollective::computed() const {
  const Kind kind = parts[0].kind;
  const bool same = kind == Kind::kAllReduce || kind == Kind::kAllGather;
  return replicated ? mesh.all_axes() : same ? varies & ~axes : varies;
}

std::ostream& operator<<(std::ostream& out, const MeshCollective& c) {
  out << "mesh " << c.mesh.to_string() << ", over " << c.mesh.names(c.axes) << ", varies over "
      << c.mesh.names(c.varies) << (c.replicated ? ", replicated" : "") << ", kind "
      << static_cast<int>(c.parts[0].kind) << " " << name_of(c.parts[0].dtype) << ", inputs";
  for (const Collective& part : c.parts) {
    for (size_t i = 0; i < part.input.size(); ++i) out << (i ? "x" : " ") << part.input[i];
  }
  return out;
}

Collective make_part(const MeshCollective& c, Kind kind, DType dtype, Reduction reduction,
                     std::vector<int64_t> input, int dimension, int concat_dimension, int64_t offset) {
  Collective result{kind, reduction, dtype, {}, std::move(input), dimension, concat_dimension, {}};
  for (int axis = 0; axis < c.mesh.rank(); ++axis) {
    if (has_axis(c.axes, axis)) result.group.push_back(c.mesh.size(axis));
  }
  for (int64_t m = 0; kind == Kind::kExchange && m < result.members(); ++m) {
    result.transfers.push_back(
        shift_transfers(result.members(), result.input[dimension], offset, offset % 2 == 0, m));
  }
  return result;
}

/// A collective of any kind on a mesh of the given shape.
MeshCollective random_collective(const std::string& mesh, std::mt19937& random) {
  MeshCollective c;
  const auto pick = [&](auto... values) {
    const std::array<std::common_type_t<decltype(values)...>, sizeof...(values)> all{values...};
    return all[random() % all.size()];
  };
  c.mesh = Mesh(Shape::parse(mesh));
  c.seed = random();
  c.axes = 1 + random() % c.mesh.all_axes();
  c.varies = c.axes | (random() & c.mesh.all_axes());
  c.replicated = pick(0, 0, 0, 1);
  const Kind kind = pick(Kind::kAllReduce, Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                         Kind::kAllToAll, Kind::kExchange);
  const DType dtype = pick(DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32);
  const Reduction reduction = pick(Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin);
  const int64_t n = c.mesh.size_of(c.axes);
  const int64_t parts = pick(1, 1, 2, 5);
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<int64_t> sizes{pick(1, 2, 3), pick(1, 3, 4), pick(1, 2, 31)};
    const int dimension = pick(0, 1, 2);
    int concat = pick(0, 1, 2);
    if (concat == dimension) concat = (concat + 1) % 3;
    // Sizes 0, 1, one less and one more than the members, and some that need several messages.
    int64_t size = pick(int64_t{0}, int64_t{1}, n - 1, n + 1, int64_t{7}, int64_t{40}, int64_t{1501});
    if (kind == Kind::kReduceScatter || kind == Kind::kAllToAll) size *= n;
    sizes[dimension] = size;
    c.parts.push_back(make_part(c, kind, dtype, reduction, sizes, dimension, concat, pick(-3, 1, 2, 9)));
  }
  return c;
}

double predicted_bytes(const MeshCollective& c) {
  const auto n = static_cast<double>(c.mesh.size_of(c.axes));
  double bytes = 0;
  for (const Collective& part : c.parts) {
    const auto input = static_cast<double>(input_bytes(part));
    if (part.kind == Kind::kAllReduce) bytes += 2 * (n - 1) * input / n;
    if (part.kind == Kind::kReduceScatter || part.kind == Kind::kAllToAll) bytes += (n - 1) * input / n;
    if (part.kind == Kind::kAllGather) bytes += (n - 1) * input;
    if (part.kind == Kind::kExchange && part.input[part.dimension] > 0) {
      double entries = 0;
      for (int64_t m = 0; m < part.members(); ++m) {
        for (const Transfer& t : part.transfers[m])
          entries += t.source == m ? 0 : static_cast<double>(t.count);
      }
      bytes += entries / n * input / static_cast<double>(part.input[part.dimension]);
    }
  }
  return bytes * static_cast<double>(c.mesh.size());
}

namespace {

void write(Backend& backend, const std::unique_ptr<DeviceMemory>& memory, const Bytes& data) {
  if (!data.empty()) backend.write(memory->data(), data.data(), std::ssize(data));
}

}  // namespace

CollectiveSide::CollectiveSide(const MeshCollective& c, Communicator& communicator, Backend& backend,
                               const CollectiveSideOptions& options)
    : c_(c),
      hosted_(c.mesh, {communicator.processes(), communicator.process()}),
      backend_(backend),
      options_(options),
      guard_(backend.allocate(1)) {
  const bool holds = options.guard.value_or(true);
  backend.write(guard_->data(), reinterpret_cast<const std::byte*>(&holds), 1);
  const RemoteGroupPlan plan(hosted_, {c.parts[0].kind, c.axes, c.computed(), c.stored()});
  const HostedCopies inputs = hosted_.copies(c.stored()), results = hosted_.copies(c.computed());
  const auto allocate = [&](int64_t copies, int64_t bytes) {
    std::vector<Memory> memory;
    for (int64_t copy = 0; copy < copies; ++copy)
      memory.push_back(backend.allocate(std::max<int64_t>(bytes, 1)));
    return memory;
  };
  std::vector<RemotePart> parts;
  for (const Collective& collective : c.parts) {
    inputs_.push_back(allocate(inputs.size(), input_bytes(collective)));
    results_.push_back(allocate(results.size(), result_bytes(collective)));
    parts.push_back({.collective = collective,
                     .groups = plan.groups(
                         [&](int64_t position) { return inputs_.back()[*inputs.find(position)]->data(); },
                         [&](int64_t position) { return results_.back()[*results.find(position)]->data(); }),
                     .process_groups = plan.process_groups()});
    if (options.guard) parts.back().guard = reinterpret_cast<const bool*>(guard_->data());
  }
  planned_bytes_ = sent_bytes(parts, communicator.process(), communicator.processes());
  remote_ = communicator.prepare(std::move(parts), "collective of a test");
}

void CollectiveSide::fill(int round) {
  const HostedCopies inputs = hosted_.copies(c_.stored());
  for (size_t part = 0; part < c_.parts.size(); ++part) {
    for (int64_t copy = 0; copy < inputs.size(); ++copy) {
      write(backend_, inputs_[part][copy], input_of(c_, part, round, inputs.position(copy)));
    }
    const Bytes untouched(result_bytes(c_.parts[part]), kUntouched);
    for (const Memory& result : results_[part]) write(backend_, result, untouched);
  }
}

std::vector<std::byte> CollectiveSide::expected(size_t part, int round, int64_t position) const {
  if (!options_.guard.value_or(true)) return Bytes(result_bytes(c_.parts[part]), kUntouched);
  return result_of(c_, part, round, position);
}

void CollectiveSide::check(int round) {
  const HostedCopies results = hosted_.copies(c_.computed());
  for (size_t part = 0; part < c_.parts.size(); ++part) {
    for (int64_t copy = 0; copy < results.size(); ++copy) {
      const Bytes wanted = expected(part, round, results.position(copy));
      Bytes actual(wanted.size());
      if (!actual.empty()) backend_.read(actual.data(), results_[part][copy]->data(), std::ssize(actual));
      EXPECT_TRUE(actual == wanted || is_close(c_.parts[part], options_.tolerance, actual, wanted))
          << c_ << "; part " << part << ", round " << round << ", process " << hosted_.process() << " of "
          << hosted_.processes() << ", position " << results.position(copy);
    }
  }
}

}  // namespace mtf::testing
