#include "engine/backend/cuda/reductions/reduce_kernels.h"

#include "engine/backend/broadcast_axes.h"

namespace mtf::cuda {

ReductionWalk walk_of(const KernelContext& context) {
  const LocalTensor &x = context.inputs[0], &y = context.outputs[0];
  StridedAxes<2> kept, dense;
  StridedAxes<1> reduced;
  bool fast_is_reduced = true;
  for (int axis : memory_order(x)) {
    const Dimension& dimension = x.local[axis];
    if (dimension.size == 1) continue;
    const int64_t stride = stride_of(y, dimension.name);
    fast_is_reduced = stride == 0;
    if (fast_is_reduced) {
      reduced.push_back({dimension.size, {x.strides[axis]}});
    } else {
      kept.push_back({dimension.size, {x.strides[axis], stride}});
    }
  }
  dense = kept;
  int64_t outputs = 1;
  for (size_t a = dense.size(); a-- > 0; outputs *= dense[a].size) dense[a].strides[0] = outputs;
  return {Strided<2>(kept), Strided<1>(reduced), Strided<2>(dense), fast_is_reduced};
}

}  // namespace mtf::cuda
