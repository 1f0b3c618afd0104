#include "tests/support/split_kernel.h"

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "tests/support/element_types.h"

namespace mtf::testing {
namespace {

/// A slice of a tensor: its position in the whole, and its data.
struct Part {
  Shape whole, local;
  DType dtype;
  std::vector<int64_t> begin;
  std::vector<std::byte> data;

  Part(const Shape& shape, DType dtype, const Layout& layout, const Mesh& mesh, int64_t position)
      : whole(shape),
        local(slice_shape(shape, layout, mesh)),
        dtype(dtype),
        begin(slice_begin(shape, layout, mesh, position)),
        data(static_cast<size_t>(bytes_of(local, dtype)), std::byte{0xff}) {}

  /// The index in the whole tensor of element `i` of the slice.
  int64_t in_whole(int64_t i) const {
    const std::vector<int64_t> strides = whole.strides();
    int64_t index = 0;
    for (int axis = local.rank(); axis-- > 0; i /= local[axis].size) {
      index += (begin[axis] + i % local[axis].size) * strides[axis];
    }
    return index;
  }
  LocalTensor described() const { return {whole, local, local.strides(), dtype}; }
  Slice slice() { return {data.data(), begin.data()}; }

  template <class Visit>
  void with_elements(Visit visit) {
    with_type(dtype, [&]<class T>(T) { visit(reinterpret_cast<T*>(data.data())); });
  }
};

void run(const Operation& operation, std::vector<Part>& inputs, std::vector<Part>& outputs,
         const EvaluateOptions& options, int64_t iteration) {
  KernelContext context{operation, {}, {}, options.seed};
  std::vector<Slice> in, out;
  for (Part& part : inputs) {
    context.inputs.push_back(part.described());
    in.push_back(part.slice());
  }
  for (Part& part : outputs) {
    context.outputs.push_back(part.described());
    out.push_back(part.slice());
  }
  const std::unique_ptr<Kernel> kernel = prepare_cpu_kernel(context);
  std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
  std::byte* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  for (int64_t task = kernel->tasks(); task-- > 0;) {
    kernel->run(KernelCall{in, out, aligned, &options.step, iteration}, task, task + 1);
  }
}

}  // namespace

std::vector<Values> evaluate_split(const Operation& operation, const std::vector<Values>& inputs,
                                   const Mesh& mesh, const LayoutRules& rules, const EvaluateOptions& options,
                                   int64_t iteration) {
  const LayoutMap map(mesh, rules);
  ShardingRequest request{map, {}};
  for (const Tensor& t : operation.inputs()) request.inputs.push_back(map.of(t.shape()));
  const ShardingRule placement = operation.sharding_rule(request);
  std::vector<Values> results;
  for (const OutputInfo& info : operation.outputs()) results.emplace_back(info.shape.size());
  for (int64_t position = 0; position < mesh.size(); ++position) {
    std::vector<Part> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = operation.inputs()[i];
      Part& part = in.emplace_back(t.shape(), t.dtype(), placement.inputs[i], mesh, position);
      part.with_elements([&]<class T>(T* data) {
        for (int64_t e = 0; e < part.local.size(); ++e) data[e] = narrow<T>(inputs[i][part.in_whole(e)]);
      });
    }
    for (size_t i = 0; i < results.size(); ++i) {
      out.emplace_back(operation.outputs()[i].shape, operation.outputs()[i].dtype, placement.outputs[i], mesh,
                       position);
    }
    run(operation, in, out, options, iteration);
    for (size_t i = 0; i < results.size(); ++i) {
      const Layout& layout = placement.outputs[i];
      if (mesh.first_position(mesh.project(position, layout.varies()), layout.varies()) != position) continue;
      out[i].with_elements([&](const auto* data) {
        for (int64_t e = 0; e < out[i].local.size(); ++e) results[i][out[i].in_whole(e)] += widen(data[e]);
      });
    }
  }
  return results;
}

}  // namespace mtf::testing
