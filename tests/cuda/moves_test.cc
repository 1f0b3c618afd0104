// Moves and collectives among positions of one device, compared with the CPU's.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/comm/communicator.h"
#include "engine/spmd/exchange.h"
#include "tests/cuda/kernel_comparison.h"

namespace mtf::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = Collective::Kind;

Bytes random_bytes(int64_t count, DType dtype, uint32_t seed) {
  if (dtype == DType::kBool) return bytes_of(random_whole_values(count, 0, 2, seed), dtype);
  Values values = random_normal_values(count, seed);
  for (double& value : values) value *= is_floating(dtype) ? 1 : 1000;
  return bytes_of(values, dtype);
}

Bytes run_move(Backend& backend, const Move& move, const Bytes& input, const Bytes& output,
               const std::vector<int64_t>& input_begin, const std::vector<int64_t>& output_begin,
               int64_t iteration, const bool* guard = nullptr) {
  const std::unique_ptr<Kernel> kernel = backend.prepare(move);
  const auto from = backend.allocate(std::ssize(input)), to = backend.allocate(std::ssize(output));
  backend.write(from->data(), input.data(), std::ssize(input));
  backend.write(to->data(), output.data(), std::ssize(output));
  const Slice inputs[] = {{from->data(), input_begin.data()}},
              outputs[] = {{to->data(), output_begin.data()}};
  kernel->run(KernelCall{inputs, outputs, nullptr, nullptr, iteration, guard}, 0, kernel->tasks());
  Bytes result(output.size());
  backend.read(result.data(), to->data(), std::ssize(result));
  return result;
}

void expect_same_move(Move::Kind kind, const Shape& global, const Shape& input,
                      const std::vector<int64_t>& input_begin, const Shape& output,
                      const std::vector<int64_t>& output_begin, DType dtype, int dimension,
                      int64_t count = 1) {
  const auto local = [&](const Shape& shape) { return LocalTensor{global, shape, shape.strides(), dtype}; };
  const Move move{kind, local(input), local(output), dimension, count};
  const Bytes from = random_bytes(input.size(), dtype, 1), to = random_bytes(output.size(), dtype, 2);
  const std::unique_ptr<Backend> cpu = make_cpu_backend();
  GuardedMemory guards(Bytes{std::byte{0}, std::byte{1}});
  const bool* guard = reinterpret_cast<const bool*>(guards.data());
  for (int64_t iteration : {int64_t{0}, count - 1, int64_t{1}}) {
    if (kind == Move::Kind::kPlace && iteration >= count) continue;
    const Bytes expected = run_move(*cpu, move, from, to, input_begin, output_begin, iteration);
    EXPECT_TRUE(run_move(cuda_device(), move, from, to, input_begin, output_begin, iteration) == expected);
    EXPECT_TRUE(run_move(cuda_device(), move, from, to, input_begin, output_begin, iteration, guard) == to);
    EXPECT_TRUE(run_move(cuda_device(), move, from, to, input_begin, output_begin, iteration, guard + 1) ==
                expected);
  }
}

TEST(Moves, OfAnyType) {
  for (DType dtype : kAllTypes) {
    for (int64_t inner : {1, 3, 16}) {
      const Shape whole{{"a", 3}, {"b", 8}, {"c", inner}}, part{{"a", 3}, {"b", 2}, {"c", inner}};
      expect_same_move(Move::Kind::kSlice, whole, whole, {0, 0, 0}, part, {0, 6, 0}, dtype, 1);
      expect_same_move(Move::Kind::kSlice, whole, whole.resized("b", 4), {0, 4, 0}, part, {0, 6, 0}, dtype,
                       1);
      expect_same_move(Move::Kind::kCopy, whole, whole, {0, 0, 0}, whole, {0, 0, 0}, dtype, -1);
      expect_same_move(Move::Kind::kPlace, whole, part, {0, 0, 0}, whole, {0, 0, 0}, dtype, 1, 4);
      if (dtype != DType::kBool)
        expect_same_move(Move::Kind::kAccumulate, whole, whole, {0, 0, 0}, whole, {0, 0, 0}, dtype, -1);
    }
  }
}

Collective collective(Collective::Kind kind, DType dtype, std::vector<int64_t> group,
                      std::vector<int64_t> input, int dimension = -1) {
  Collective c;
  c.kind = kind;
  c.dtype = dtype;
  c.group = std::move(group);
  c.input = std::move(input);
  c.dimension = dimension;
  return c;
}

int64_t result_size(const Collective& c) {
  int64_t size = 1;
  for (int64_t n : c.input) size *= n;
  if (c.kind == Collective::Kind::kReduceScatter) return size / c.members();
  return c.kind == Collective::Kind::kAllGather ? size * c.members() : size;
}

void expect_same_collective(const Collective& c) {
  int64_t size = 1;
  for (int64_t n : c.input) size *= n;
  std::vector<Bytes> inputs;
  std::vector<GuardedMemory> memory;
  std::vector<const std::byte*> host, device;
  for (int64_t m = 0; m < c.members(); ++m) {
    inputs.push_back(random_bytes(size, c.dtype, static_cast<uint32_t>(m)));
    memory.emplace_back(inputs.back());
  }
  for (int64_t m = 0; m < c.members(); ++m) {
    host.push_back(inputs[static_cast<size_t>(m)].data());
    device.push_back(memory[static_cast<size_t>(m)].data());
  }
  const std::unique_ptr<PreparedCollective> cpu = prepare_in_process(c), gpu = cuda_device().prepare(c);
  EXPECT_EQ(gpu->tasks(), 1);
  GuardedMemory guard(Bytes{std::byte{0}});
  const Bytes before(static_cast<size_t>(result_size(c)) * size_of(c.dtype), std::byte{0x5a});
  for (int64_t member : {int64_t{0}, c.members() / 2, c.members() - 1}) {
    Bytes expected = before;
    const double bytes = cpu->run(host, member, expected.data(), 0, cpu->tasks());
    GuardedMemory result(before);
    gpu->run(device, member, result.data(), 0, 1, reinterpret_cast<const bool*>(guard.data()));
    EXPECT_TRUE(result.read() == before);
    EXPECT_EQ(gpu->run(device, member, result.data(), 0, 1), bytes);
    EXPECT_TRUE(result.read() == expected)
        << "member " << member << " of " << c.members() << ", " << name_of(c.dtype);
  }
}

TEST(Collectives, ReduceByTheTree) {
  const std::vector<int64_t> groups[] = {{1}, {2}, {3}, {4}, {7}, {8}, {2, 3}, {3, 2, 2}, {5, 7}, {64}};
  for (const std::vector<int64_t>& group : groups) {
    for (DType dtype : kAllTypes) {
      expect_same_collective(collective(Kind::kAllReduce, dtype, group, {3, 17}));
      for (const int dimension : {0, 1}) {
        for (int64_t inner : {1, 16}) {
          Collective c = collective(Kind::kReduceScatter, dtype, group, {2, 3, inner}, dimension);
          c.input[static_cast<size_t>(dimension)] *= c.members();
          expect_same_collective(c);
        }
      }
    }
  }
}

TEST(Collectives, ReduceMoreMembersThanOneLaunchTakes) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::vector<int64_t>& group : {std::vector<int64_t>{65}, {130}, {9, 20}})
      expect_same_collective(collective(Kind::kAllReduce, dtype, group, {40}));
  }
}

TEST(Collectives, LargestAndSmallest) {
  for (DType dtype : kAllTypes) {
    for (Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      Collective c = collective(Kind::kAllReduce, dtype, {6}, {50});
      c.reduction = reduction;
      expect_same_collective(c);
    }
  }
}

TEST(Collectives, Gather) {
  for (DType dtype : kAllTypes) {
    for (int dimension : {0, 1, 2})
      expect_same_collective(collective(Kind::kAllGather, dtype, {2, 20}, {2, 3, 4}, dimension));
  }
}

TEST(Collectives, AllToAll) {
  for (DType dtype : kAllTypes) {
    for (int split : {0, 1, 2}) {
      for (int concat : {0, 1, 2}) {
        if (split == concat) continue;
        Collective c = collective(Kind::kAllToAll, dtype, {4}, {2, 3, 5}, split);
        c.concat_dimension = concat;
        c.input[static_cast<size_t>(split)] = 8;
        expect_same_collective(c);
      }
    }
  }
}

TEST(Collectives, Exchange) {
  for (DType dtype : kAllTypes) {
    for (int64_t offset : {-9, -3, 1, 4, 20}) {
      for (bool wrap : {false, true}) {
        Collective c = collective(Kind::kExchange, dtype, {3}, {2, 4, 3}, 1);
        for (int64_t member = 0; member < 3; ++member)
          c.transfers.push_back(shift_transfers(3, 4, offset, wrap, member));
        expect_same_collective(c);
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
