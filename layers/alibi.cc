#include "layers/alibi.h"

#include <bit>
#include <numbers>
#include <string>

#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// Positions are read in two digits, each of which bfloat16 holds exactly.
constexpr double kDigit = 256;

/// The slope of each head, float32 [heads..]: 2^(-8 (i + 1) / n) of the first n heads, where n is a power of two, and of those
/// beyond them every other slope of 2n heads. Section 3.
Tensor alibi_slopes(Graph& graph, const Shape& heads) {
  const auto constant = [&](double value, DType dtype) { return graph.constant(value, dtype); };
  Tensor head = constant(0, DType::kInt32);
  for (const Dimension& d : heads) {
    const Tensor index = range(graph, d);
    head = add(multiply(head, constant(static_cast<double>(d.size), DType::kInt32)), index,
               head.shape() + Shape{d});
  }
  const auto power = static_cast<double>(std::bit_floor(static_cast<uint64_t>(heads.size())));
  const Tensor number = cast(head, DType::kFloat32);
  const auto line = [&](double factor, double offset) {
    return add(scalar_multiply(number, factor), constant(offset, DType::kFloat32), number.shape());
  };
  const Tensor first = line(-8 / power, -8 / power), further = line(-8 / power, 8 - 4 / power);
  const Tensor is_first = less(head, constant(power, DType::kInt32));
  return exp(scalar_multiply(where(is_first, first, further), std::numbers::ln2));
}

/// x with two more entries.
Tensor with_entries(const Tensor& x, const Tensor& first, const Tensor& second) {
  const Dimension entry{"d_kv", 1};
  Shape shape;
  for (const Dimension& d : x.shape()) shape = shape + Shape{d.name == entry.name ? entry : d};
  const auto as_entry = [&](const Tensor& value) { return broadcast(cast(value, x.dtype()), shape); };
  return rename(concat({x, as_entry(first), as_entry(second)}, entry.name), entry.name,
                std::string(kAlibiKey));
}

}  // namespace

void add_alibi(AttentionInputs& inputs, const Shape& heads, const Tensor& position) {
  Graph& graph = inputs.q.graph();
  const Tensor slopes = alibi_slopes(graph, heads);
  const Tensor low = modulo(position, graph.constant(kDigit, DType::kInt32));
  const Tensor high = scalar_multiply(cast(subtract(position, low), DType::kFloat32), 1 / kDigit);
  inputs.q = with_entries(inputs.q, scalar_multiply(slopes, kDigit), slopes);
  inputs.k = with_entries(inputs.k, high, cast(low, DType::kFloat32));
}

}  // namespace mtf
