#include "trainer/session/feed.h"

#include <algorithm>
#include <limits>

#include "trainer/session/model_inputs.h"

namespace mtf {

namespace {

/// The smallest box around all slices of a value that a process holds.
Box box_around(const Program& program, ValueId id, const HostedMesh& mesh) {
  const Value& value = program.values[id];
  const Shape& local = program.local_shape(id);
  const HostedCopies copies = mesh.copies(value.layout.copies());
  std::vector<int64_t> begin, end;
  for (int64_t copy = 0; copy < copies.size(); ++copy) {
    const auto first = slice_begin(value.shape, value.layout, program.mesh, copies.position(copy));
    begin.resize(first.size(), std::numeric_limits<int64_t>::max());
    end.resize(first.size(), 0);
    for (size_t axis = 0; axis < first.size(); ++axis) {
      begin[axis] = std::min(begin[axis], first[axis]);
      end[axis] = std::max(end[axis], first[axis] + local[static_cast<int>(axis)].size);
    }
  }
  std::vector<Dimension> dimensions = value.shape.dimensions();
  for (size_t axis = 0; axis < dimensions.size(); ++axis) dimensions[axis].size = end[axis] - begin[axis];
  return {std::move(begin), Shape(std::move(dimensions))};
}

}  // namespace

BatchPart part_of(const Program& program, Hosting hosting) {
  const HostedMesh mesh(program.mesh, hosting);
  BatchPart part{.in_bytes = true};
  for (const auto& [name, id] : program.inputs) {
    const Value& value = program.values[id];
    if (value.shape.rank() == 0 || value.shape[0].name != kBatch) continue;
    Box box = box_around(program, id, mesh);
    const int64_t begin = box.begin[0], end = begin + box.shape[0].size;
    const int64_t all_end = std::max(end, part.begin + part.count.value_or(0));
    part.begin = part.count ? std::min(part.begin, begin) : begin;
    part.count = all_end - part.begin;
    box.begin.erase(box.begin.begin());
    part.boxes[name] = {std::move(box.begin), without(box.shape, kBatch)};
  }
  return part;
}

void feed_batch(Executor& executor, const Source& source, const Batch& batch) {
  const std::vector<Feature>& features = source.features();
  for (size_t i = 0; i < features.size(); ++i) {
    if (executor.program().input(features[i].name) == kNoValue) continue;
    const auto f = static_cast<int>(i);
    const Box& place = batch.place(f);
    executor.feed(features[i].name, {batch.feature(f).data(), place.shape, place.begin, batch.in_bytes(f)});
  }
}

}  // namespace mtf
