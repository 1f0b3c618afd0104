#include "engine/core/mesh.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace mtf {

Mesh::Mesh(Shape shape) : shape_(std::move(shape)) {
  if (rank() > 31) throw Error(ErrorKind::kConfig, "a mesh has at most 31 dimensions");
}

int64_t Mesh::size_of(AxisMask mask) const {
  int64_t product = 1;
  for (int axis = 0; axis < rank(); ++axis) {
    if (has_axis(mask, axis)) product *= size(axis);
  }
  return product;
}

std::vector<int64_t> Mesh::coordinates(int64_t position) const {
  std::vector<int64_t> result(rank());
  for (int axis = rank() - 1; axis >= 0; --axis) {
    result[axis] = position % size(axis);
    position /= size(axis);
  }
  return result;
}

int64_t Mesh::project(int64_t position, AxisMask mask) const {
  int64_t index = 0, scale = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (has_axis(mask, axis)) {
      index += position % size(axis) * scale;
      scale *= size(axis);
    }
    position /= size(axis);
  }
  return index;
}

int64_t Mesh::first_position(int64_t index, AxisMask mask) const {
  int64_t position = 0, scale = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (has_axis(mask, axis)) {
      position += index % size(axis) * scale;
      index /= size(axis);
    }
    scale *= size(axis);
  }
  return position;
}

int64_t Mesh::first_position(int64_t index, const Copies& copies) const {
  const int64_t position = first_position(index, copies.axes);
  return copies.pin ? position + first_position(copies.pin->coordinate, axis_bit(copies.pin->axis))
                    : position;
}

bool Mesh::is_at(int64_t position, const Pin& pin) const {
  return project(position, axis_bit(pin.axis)) == pin.coordinate;
}

Copies Mesh::stored(const Copies& copies, bool replicate) const {
  if (!replicate) return copies;
  return {copies.pin ? all_axes() & ~axis_bit(copies.pin->axis) : all_axes(), copies.pin};
}

std::string Mesh::names(AxisMask mask) const {
  std::string text;
  for (int axis = 0; axis < rank(); ++axis) {
    if (has_axis(mask, axis)) text += (text.empty() ? "" : ", ") + name(axis);
  }
  return text;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const Dimension& d : shape_) text += fmt::format("{}{}={}", text.empty() ? "" : " ", d.name, d.size);
  return text.empty() ? "one position" : text;
}

}  // namespace mtf
