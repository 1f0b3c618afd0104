#include "engine/spmd/partition/transition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mtf {
namespace {

/// The tensor on every position, with the global indices of the elements as their values.
struct Held {
  Shape local;
  std::vector<std::vector<int64_t>> elements;  ///< by position, row-major
};

Held held(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Held result{slice_shape(shape, layout, mesh), {}};
  const std::vector<int64_t> strides = shape.strides();
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const std::vector<int64_t> begin = slice_begin(shape, layout, mesh, position);
    std::vector<int64_t>& elements = result.elements.emplace_back();
    for (int64_t i = 0; i < result.local.size(); ++i) {
      int64_t rest = i, element = 0;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        element += (begin[axis] + rest % result.local[axis].size) * strides[axis];
        rest /= result.local[axis].size;
      }
      elements.push_back(element);
    }
  }
  return result;
}

/// One position's elements in part `part` of `parts` along `axis`.
std::vector<int64_t> part_of(const std::vector<int64_t>& data, const Shape& local, int axis, int64_t part,
                             int64_t parts) {
  const int64_t inner = local.strides()[axis], size = local[axis].size;
  std::vector<int64_t> result;
  for (int64_t i = 0; i < local.size(); ++i) {
    if (i / inner % size / (size / parts) == part) result.push_back(data[i]);
  }
  return result;
}

/// The concatenation along `axis` of tensors of shape `local`.
std::vector<int64_t> concatenated(const std::vector<std::vector<int64_t>>& tensors, const Shape& local,
                                  int axis) {
  const int64_t row = local.strides()[axis] * local[axis].size;
  std::vector<int64_t> result;
  for (int64_t outer = 0; outer < local.size() / row; ++outer) {
    for (const auto& t : tensors)
      result.insert(result.end(), t.begin() + outer * row, t.begin() + (outer + 1) * row);
  }
  return result;
}

Shape scaled(const Shape& shape, int axis, int64_t factor, int64_t divisor) {
  return shape.resized(shape[axis].name, shape[axis].size * factor / divisor);
}

AxisMask axes_of(const TransitionStep& step) {
  if (const auto* slice = std::get_if<action::Slice>(&step.action)) return slice->axes;
  return std::get<action::Communicate>(step.action).axes;
}

/// The tensors on all positions after a step, from the definition of the collective.
Held after(const Held& before, const TransitionStep& step, const Mesh& mesh) {
  const Instruction instruction{step.action};
  if (instruction.collective<action::AllReduce>()) return before;  // the elements stay where they are
  const AxisMask axes = axes_of(step);
  const int64_t n = mesh.size_of(axes);
  Held result;
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const int64_t coordinate = mesh.project(position, axes);
    std::vector<const std::vector<int64_t>*> group;
    for (int64_t other = 0; other < mesh.size(); ++other) {
      if (mesh.project(other, mesh.all_axes() & ~axes) == mesh.project(position, mesh.all_axes() & ~axes))
        group.push_back(&before.elements[other]);
    }
    std::vector<std::vector<int64_t>> pieces;
    if (const auto* slice = instruction.as<action::Slice>()) {
      result.local = scaled(before.local, slice->dimension, 1, n);
      result.elements.push_back(
          part_of(before.elements[position], before.local, slice->dimension, coordinate, n));
    } else if (const auto* gather = instruction.collective<action::AllGather>()) {
      result.local = scaled(before.local, gather->dimension, n, 1);
      for (const auto* member : group) pieces.push_back(*member);
      result.elements.push_back(concatenated(pieces, before.local, gather->dimension));
    } else {
      const auto& exchange = *instruction.collective<action::AllToAll>();
      const Shape piece = scaled(before.local, exchange.dimension, 1, n);
      result.local = scaled(piece, exchange.concat_dimension, n, 1);
      for (const auto* member : group)
        pieces.push_back(part_of(*member, before.local, exchange.dimension, coordinate, n));
      result.elements.push_back(concatenated(pieces, piece, exchange.concat_dimension));
    }
  }
  return result;
}

/// A layout that splits each mesh dimension (in random order) over a random dimension or none.
Layout random_layout(int rank, const Mesh& mesh, std::mt19937& random) {
  Layout layout = Layout::replicated(rank);
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.rank(); ++axis) axes.push_back(axis);
  std::shuffle(axes.begin(), axes.end(), random);
  for (int axis : axes) {
    const int dimension = std::uniform_int_distribution(-1, rank - 1)(random);
    if (dimension >= 0) layout.split.change()[dimension].push_back(axis);
  }
  return layout;
}

void expect_transitions(const std::string& mesh_text, int count) {
  const Mesh mesh(Shape::parse(mesh_text));
  const Shape shape{{"a", 24}, {"b", 24}, {"c", 24}};
  std::mt19937 random(1);
  for (int i = 0; i < count; ++i) {
    const Layout from = random_layout(3, mesh, random), to = random_layout(3, mesh, random);
    Held now = held(shape, from, mesh);
    const std::string what = to_string(shape, from, mesh) + " to " + to_string(shape, to, mesh);
    const std::vector<TransitionStep> steps = plan_transition(from, to);
    for (const TransitionStep& step : steps) {
      now = after(now, step, mesh);
      const Held expected = held(shape, step.result, mesh);
      ASSERT_EQ(now.local, expected.local) << what;
      ASSERT_EQ(now.elements, expected.elements) << what;
    }
    EXPECT_EQ(steps.empty() ? from : steps.back().result, to) << what;
    EXPECT_LE(steps.size(), 2u * mesh.rank()) << what;
  }
}

TEST(Transition, LeavesEveryPositionWithItsSliceOn2x2) { expect_transitions("x:2;y:2", 250); }
TEST(Transition, LeavesEveryPositionWithItsSliceOn2x3) { expect_transitions("x:2;y:3", 250); }
TEST(Transition, LeavesEveryPositionWithItsSliceOn2x2x2) { expect_transitions("x:2;y:2;z:2", 250); }

std::string kinds(const std::vector<TransitionStep>& steps) {
  std::string result;
  for (const TransitionStep& step : steps)
    result += (result.empty() ? "" : " ") + std::string(name_of({step.action}));
  return result;
}

TEST(Transition, TakesTheCheapestKind) {
  EXPECT_EQ(kinds(plan_transition({{{0}, {}}, 0}, {{{0}, {}}, 0})), "");
  EXPECT_EQ(kinds(plan_transition({{{}, {}}, 0}, {{{0}, {}}, 0})), "slice");
  EXPECT_EQ(kinds(plan_transition({{{0}, {}}, 0}, {{{}, {}}, 0})), "all_gather");
  EXPECT_EQ(kinds(plan_transition({{{0}, {}}, 0}, {{{}, {0}}, 0})), "all_to_all");
  EXPECT_EQ(kinds(plan_transition({{{0}, {}}, 0}, {{{}, {1}}, 0})), "slice all_gather");
  EXPECT_EQ(kinds(plan_transition({{{}, {}}, 3}, {{{0}, {1}}, 0})), "all_reduce slice slice");
  EXPECT_EQ(kinds(plan_transition({{{0, 1}, {}}, 0}, {{{}, {1}}, 0})), "all_to_all all_gather");
}

TEST(Transition, ReducesOnlyThePartialSumsThatAreNotWanted) {
  const std::vector<TransitionStep> steps = plan_transition({{{}}, 0b111}, {{{}}, 0b010});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(axes_of(steps[0]), 0b101u);
  EXPECT_EQ(steps[0].result.partial, 0b010u);
}

TEST(TransitionDeathTest, CannotMakeAPartialSum) {
  EXPECT_DEATH(plan_transition({{{}}, 0}, {{{}}, 1}), "cannot make a partial sum");
}

}  // namespace
}  // namespace mtf
