#include "layers/span_positions.h"

#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/attention.h"

namespace mtf {
namespace {

/// A number for each span, larger for later spans and later texts.
Tensor span_numbers(const Tensor& ids, const Tensor& segment, const std::string& length,
                    int64_t first_sentinel, int64_t longest) {
  Graph& graph = ids.graph();
  const Tensor first = graph.constant(static_cast<double>(first_sentinel), ids.dtype());
  const Tensor begins = cast(greater_equal(ids, first, ids.shape()), DType::kInt32);
  const Tensor size = graph.constant(static_cast<double>(longest), DType::kInt32);
  return add(cumsum(begins, length), multiply(segment, size, segment.shape()), ids.shape());
}

}  // namespace

Tensor span_positions(const Tensor& ids, const Tensor& segment, const Tensor& memory_ids,
                      const Tensor& memory_segment, int64_t first_sentinel) {
  const std::string memory(kMemoryLength), length = "length";
  const int64_t longest =
      std::max(ids.shape().dimension(length).size, memory_ids.shape().dimension(memory).size);
  const Tensor of_ids = span_numbers(ids, segment, length, first_sentinel, longest);
  const Tensor of_memory = span_numbers(memory_ids, memory_segment, memory, first_sentinel, longest);
  const Tensor earlier = less(of_memory, of_ids, of_ids.shape() + of_memory.shape());
  return reduce_sum(cast(earlier, DType::kInt32), of_ids.shape());
}

}  // namespace mtf
