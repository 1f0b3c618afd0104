#include "layers/decoding.h"

#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/concat.h"
#include "engine/ops/dynamic_update_slice.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/transpose.h"
#include "engine/ops/update_kv_cache.h"
#include "layers/context.h"

namespace mtf {
namespace {

/// The entries that recall() returns beside that of the step.
constexpr std::string_view kWindow = "window";

/// `memory` comes before the dimension of the entries, if there is one: each head's entries lie behind each
/// other. The batch stays in front.
Shape cache_shape(const Shape& x, const Dimension& memory) {
  Shape others = x;
  if (others.contains(memory.name)) others = others - others.dimension(memory.name);
  const Dimension entry = others[others.rank() - 1];
  if (others.rank() == 1) return others + memory;
  return others - entry + memory + entry;
}

/// Each call makes one: prefill and step make theirs in the same order.
const Variable& session_variable(Context& context, const std::string& name, const Shape& shape, DType dtype) {
  Graph& graph = context.graph();
  return graph.variable(graph.unique_name(name), shape, dtype, Initializer::zeros(),
                        Variable::Kind::kSession);
}

}  // namespace

Decoding Decoding::prefill(const Dimension& beam, const Dimension& memory, const Tensor& last) {
  Decoding decoding = step(beam, memory, {}, {}, {}, {});
  decoding.last_ = last;
  return decoding;
}

Decoding Decoding::step(const Dimension& beam, const Dimension& memory, const Tensor& position,
                        const Tensor& parent, const Tensor& common, const Tensor& shared_prefix) {
  Decoding decoding;
  decoding.beam_ = beam;
  decoding.memory_ = memory;
  decoding.position_ = position;
  decoding.parent_ = parent;
  decoding.common_ = common;
  decoding.shared_prefix_ = shared_prefix;
  return decoding;
}

Tensor Decoding::remember(Context& context, const std::string& name, const Tensor& x) const {
  Graph& graph = context.graph();
  if (!is_step()) {
    const int64_t given = x.shape().dimension(memory_.name).size;
    const Shape of_text = cache_shape(x.shape(), memory_);
    const Shape shape = Shape{of_text[0], beam_} + (of_text - of_text[0]);
    const Tensor filled = pad(x, memory_.name, 0, memory_.size - given);
    graph.assign(session_variable(context, name, shape, x.dtype()), broadcast(filled, shape));
    return x;
  }
  const Shape shape = cache_shape(x.shape(), memory_);
  const Variable& variable = session_variable(context, name, shape, x.dtype());
  const Tensor before = graph.read(variable);
  const Tensor cache = parent_
                           ? update_kv_cache(before, x, position_, parent_, common_, beam_.name, memory_.name)
                           : dynamic_update_slice(before, x, position_, memory_.name);
  graph.assign(variable, cache);
  return cache;
}

void Decoding::keep(Context& context, const std::string& name, const Tensor& x) const {
  const Shape shape = cache_shape(x.shape(), x.shape().dimension(memory_.name));
  context.graph().assign(session_variable(context, name, shape, x.dtype()), transpose(x, shape));
}

Tensor Decoding::kept(Context& context, const std::string& name, const Shape& shape, DType dtype) const {
  const Shape stored = cache_shape(shape, shape.dimension(memory_.name));
  return context.graph().read(session_variable(context, name, stored, dtype));
}

void Decoding::keep_last(Context& context, const std::string& name, const Tensor& x,
                         const std::string& length, int64_t width) const {
  if (width < 2) return;
  Graph& graph = context.graph();
  const Dimension window{std::string(kWindow), width - 1};
  const Tensor index = subtract(last_, range(graph, window), last_.shape() + Shape{window});
  const Tensor entries = gather(x, index, length);
  const Shape shape = Shape{context.batch(), beam_, window} + (without(x.shape(), length) - context.batch());
  graph.assign(session_variable(context, name, shape, x.dtype()), broadcast(entries, shape));
}

Tensors Decoding::recall(Context& context, const std::string& name, const Tensor& x, int64_t width) const {
  if (width < 2) return {x};
  Graph& graph = context.graph();
  const Dimension window{std::string(kWindow), width - 1};
  const Shape entry = x.shape() - context.batch() - beam_;
  const Shape shape = Shape{context.batch(), beam_, window} + entry;
  const Variable& variable = session_variable(context, name, shape, x.dtype());
  Tensor before = graph.read(variable);
  if (parent_) {
    const Tensor own = range(graph, beam_), zero = graph.constant(0, DType::kInt32);
    const Tensor known = logical_and(
        less_equal(zero, parent_, parent_.shape()),
        less(parent_, graph.constant(static_cast<double>(beam_.size), DType::kInt32), parent_.shape()));
    const Tensor parent = where(known, parent_, broadcast(own, parent_.shape()));
    before = gather(rename(before, beam_.name, "parent"), parent, "parent", shape);
  }
  Tensors entries{x};
  for (int64_t i = 0; i + 1 < width; ++i) {
    const Tensor one = slice(before, window.name, i, 1);
    entries.push_back(reshape(one, without(shape, window.name)));
  }
  const Tensor newest = reshape(x, shape.resized(window.name, 1));
  Tensor after = newest;
  if (width > 2) after = concat({newest, slice(before, window.name, 0, width - 2)}, window.name);
  graph.assign(variable, after);
  return entries;
}

}  // namespace mtf
