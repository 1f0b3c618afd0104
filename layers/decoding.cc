#include "layers/decoding.h"

#include "engine/ops/broadcast.h"
#include "engine/ops/dynamic_update_slice.h"
#include "engine/ops/slice.h"
#include "engine/ops/transpose.h"
#include "engine/ops/update_kv_cache.h"
#include "layers/context.h"

namespace mtf {
namespace {

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

Decoding Decoding::prefill(const Dimension& beam, const Dimension& memory) {
  return step(beam, memory, {}, {});
}

Decoding Decoding::step(const Dimension& beam, const Dimension& memory, const Tensor& position,
                        const Tensor& parent) {
  Decoding decoding;
  decoding.beam_ = beam;
  decoding.memory_ = memory;
  decoding.position_ = position;
  decoding.parent_ = parent;
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
  const Tensor cache = parent_ ? update_kv_cache(before, x, position_, parent_, beam_.name, memory_.name)
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

}  // namespace mtf
