#include "trainer/programs/convert/expert_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/base/error.h"
#include "engine/base/replace_all.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {
namespace {

std::string name_of_expert(const ExpertTensors& tensors, int64_t expert) {
  std::string name = tensors.of_each;
  replace_all(name, "*", fmt::to_string(expert));
  return name;
}

/// Returns the kernel of one expert, as if it were a tensor of its own.
StoredTensor kernel_in(const StoredTensor& all, const ExpertTensors& theirs, int64_t expert) {
  const int64_t rows = all.shape[1] / theirs.parts_of_all;
  return rows_of(all, (expert * theirs.parts_of_all + theirs.part) * rows, rows);
}

}  // namespace

ImportedExperts import_experts(const Variable& variable, const ExpertTensors& theirs, const FindTensor& find,
                               const std::string& from) {
  const std::vector<int64_t> sizes = variable.shape.sizes();
  const StoredTensor* all = find(theirs.of_all);
  if (all) check_stored(*all, {sizes[0], theirs.parts_of_all * sizes[2], sizes[1]}, from);
  Variable of_one = variable;
  of_one.shape = variable.shape - variable.shape[0];
  ImportedExperts made{HostTensor(variable.shape, DType::kFloat32), {}};
  auto to = made.value.bytes.begin();
  for (int64_t expert = 0; expert < sizes[0]; ++expert) {
    const std::string name = all ? theirs.of_all : name_of_expert(theirs, expert);
    const StoredTensor* stored = find(name);
    if (!stored)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{} has no tensor `{}`", from, name),
                  "config.json and the file of weights are not of one model");
    const HostTensor kernel =
        value_of(of_one, all ? kernel_in(*stored, theirs, expert) : *stored, true, from);
    to = std::ranges::copy(kernel.bytes, to).out;
    made.used.push_back(stored->name);
  }
  return made;
}

std::vector<WrittenTensor> export_experts(const ModelWeight& weight, const ExpertTensors& theirs) {
  const int64_t experts = weight.value.shape[0].size;
  const Shape shape = weight.value.shape - weight.value.shape[0];
  std::vector<WrittenTensor> tensors;
  for (int64_t expert = 0; expert < experts; ++expert) {
    ModelWeight kernel{weight.name, HostTensor(shape, weight.value.dtype)};
    const std::span<const std::byte> all = weight.value.bytes;
    const size_t width = kernel.value.bytes.size();
    std::ranges::copy(all.subspan(static_cast<size_t>(expert) * width, width), kernel.value.bytes.begin());
    tensors.push_back(written_tensor(kernel, {name_of_expert(theirs, expert), true}));
  }
  return tensors;
}

}  // namespace mtf
