#include "trainer/session/feed.h"

#include <algorithm>

#include "trainer/session/step.h"

namespace mtf {

BatchRows rows_of(const Program& program, Hosting hosting) {
  const HostedMesh mesh(program.mesh, hosting);
  BatchRows all;
  for (const auto& [name, id] : program.inputs) {
    const Value& value = program.values[id];
    if (value.shape.rank() == 0 || value.shape[0].name != kBatch) continue;
    const int64_t rows = program.local_shape(id)[0].size;
    const HostedCopies copies = mesh.copies(value.layout.varies());
    for (int64_t copy = 0; copy < copies.size(); ++copy) {
      const int64_t begin = slice_begin(value.shape, value.layout, program.mesh, copies.position(copy))[0];
      const int64_t end = std::max(begin + rows, all.begin + all.count.value_or(0));
      all.begin = all.count ? std::min(all.begin, begin) : begin;
      all.count = end - all.begin;
    }
  }
  return all;
}

void feed_batch(Executor& executor, const Source& source, const Batch& batch) {
  const std::vector<Feature>& features = source.features();
  for (size_t i = 0; i < features.size(); ++i) {
    if (executor.program().input(features[i].name) == kNoValue) continue;
    executor.feed(features[i].name, batch.feature(static_cast<int>(i)).data(), batch.first);
  }
}

}  // namespace mtf
