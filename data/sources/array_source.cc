#include "data/sources/array_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "data/class_names.h"
#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

bool is_row_major(const Shape& shape, const ExampleArray& array) {
  int64_t stride = size_of(array.elements.type);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (array.strides[axis] != stride && shape[axis].size > 1) return false;
    stride *= shape[axis].size;
  }
  return true;
}

/// Converts a box of an array whose dimensions lie in any order; false when a number does not fit.
bool read_strided(const Feature& feature, const FeatureSlice& slice, const ExampleArray& array,
                  const std::byte* value) {
  bool fits = true;
  const DType dtype = slice.dtype(feature);
  std::byte* output = slice.output;
  const auto width = static_cast<int64_t>(size_of(dtype));
  for_each_run(feature.shape, slice.box, [&](int64_t first, int64_t count) {
    const int last = feature.shape.rank() - 1;
    const int64_t row = feature.shape[last].size;
    for (int64_t done = 0; done < count;) {
      const int64_t at = (first + done) % row, part = std::min(count - done, row - at);
      const std::byte* from = value + at * array.strides[last];
      int64_t rest = (first + done) / row;
      for (int axis = last - 1; axis >= 0; --axis) {
        from += rest % feature.shape[axis].size * array.strides[axis];
        rest /= feature.shape[axis].size;
      }
      fits &= convert_elements(array.elements, from, array.strides[last], part, dtype, output);
      output += part * width;
      done += part;
    }
  });
  return fits;
}

bool read_row_major(const Feature& feature, const FeatureSlice& slice, const ExampleArray& array,
                    const std::byte* value) {
  bool fits = true;
  const DType dtype = slice.dtype(feature);
  std::byte* output = slice.output;
  const auto width = static_cast<int64_t>(size_of(dtype)), stored = size_of(array.elements.type);
  for_each_run(feature.shape, slice.box, [&](int64_t first, int64_t count) {
    fits &= convert_elements(array.elements, value + first * stored, stored, count, dtype, output);
    output += count * width;
  });
  return fits;
}

}  // namespace

std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes, int64_t element_bytes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = element_bytes;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= sizes[axis];
  }
  return strides;
}

ArraySource::ArraySource(std::vector<ArrayFeature> features, std::vector<std::string> class_names,
                         std::optional<Mark> place_of_names)
    : class_names_(std::move(class_names)), place_of_names_(std::move(place_of_names)) {
  for (ArrayFeature& feature : features) {
    std::vector<Part>& parts = parts_.emplace_back();
    int64_t examples = 0;
    for (ExampleArray& array : feature.arrays) {
      MTF_CHECK(std::ssize(array.strides) == feature.feature.shape.rank() && array.examples >= 1,
                "{}: {} examples, {} strides for {}", array.path, array.examples, array.strides.size(),
                feature.feature.shape.to_string());
      parts.push_back({examples, std::move(array)});
      examples += parts.back().array.examples;
    }
    MTF_CHECK(features_.empty() || examples == examples_, "{} and {} examples", examples_, examples);
    examples_ = examples;
    features_.push_back(std::move(feature.feature));
  }
  MTF_CHECK(examples_ >= 1, "no examples");
  check_numbers();
}

void ArraySource::check_numbers() const {
  const auto may_not_fit = [](const Part& part) {
    const StoredType type = part.array.elements.type;
    return type == StoredType::kUint32 || type == StoredType::kUint64 || type == StoredType::kInt64;
  };
  constexpr int64_t kMostNumbers = int64_t{1} << 27;  // more are not read from a disk only for this
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].dtype != DType::kInt32 || std::ranges::none_of(parts_[f], may_not_fit)) continue;
    if (examples_ * features_[f].shape.size() > kMostNumbers) continue;
    std::vector<std::byte> value(static_cast<size_t>(features_[f].bytes()));
    for (int64_t example = 0; example < examples_; ++example) read_example(f, example, {value.data()});
  }
}

const ArraySource::Part& ArraySource::part_of(size_t feature, int64_t example) const {
  const auto after = std::ranges::upper_bound(parts_[feature], example, {}, &Part::begin);
  return *(after - 1);
}

bool ArraySource::has_bytes(size_t f) const {
  return std::ranges::all_of(parts_[f], [](const Part& part) { return part.array.elements.scaled; });
}

std::byte* ArraySource::read_example(size_t f, int64_t example, const FeatureSlice& slice) const {
  const Part& part = part_of(f, example);
  const std::byte* const value = part.array.data + (example - part.begin) * part.array.stride;
  const auto read_box = is_row_major(features_[f].shape, part.array) ? read_row_major : read_strided;
  if (!read_box(features_[f], slice, part.array, value))
    throw Error(ErrorKind::kData,
                fmt::format("{}: feature `{}` of example {} has a number that int32 does not have",
                            part.array.path, features_[f].name, example - part.begin),
                "whole numbers of 32 bits, or floating-point numbers");
  return slice.output + slice.bytes(features_[f]);
}

void ArraySource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  for (size_t f = 0; f < features_.size(); ++f) {
    FeatureSlice slice = slices[f];
    for (const int64_t row : rows) {
      MTF_CHECK(row >= 0 && row < examples_, "row {} of {}", row, examples_);
      slice.output = read_example(f, row, slice);
    }
  }
}

int64_t ArraySource::bytes_in_memory() const {
  int64_t bytes = 0;
  for (const std::vector<Part>& parts : parts_)
    for (const Part& part : parts) bytes += part.array.bytes_in_memory;
  return bytes;
}

std::string ArraySource::preparation() const { return preparation_of(class_names_); }

void ArraySource::check_labels(const LabelRange& expected) const {
  const int64_t classes = expected.classes;
  if (place_of_names_ && !class_names_.empty() && std::ssize(class_names_) != classes)
    throw Error(ErrorKind::kConfig, *place_of_names_,
                fmt::format("`class_names` has {}, and the model has {} classes",
                            counted(std::ssize(class_names_), "name"), classes),
                "a name for each class of the model");
  const auto labels = std::ranges::find(features_, expected.feature, &Feature::name);
  if (labels == features_.end() || labels->dtype != DType::kInt32) return;
  const auto f = static_cast<size_t>(labels - features_.begin());
  std::vector<int32_t> values(static_cast<size_t>(labels->shape.size()));
  struct Wrong {
    const Part* part;
    int64_t example;  ///< counts from 0 in the file
    int32_t label;
  };
  std::optional<Wrong> wrong;
  int32_t most = std::numeric_limits<int32_t>::min();
  for (int64_t example = 0; example < examples_; ++example) {
    const Part& part = part_of(f, example);
    read_example(f, example, {reinterpret_cast<std::byte*>(values.data())});
    for (const int32_t label : values) {
      most = std::max(most, label);
      if (!wrong && !expected.contains(label)) wrong = {&part, example - part.begin, label};
    }
  }
  if (!wrong) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: label {} of example {}, but there are {} classes", wrong->part->array.path,
                          wrong->label, wrong->example, classes),
              wrong->label < 0
                  ? fmt::format("labels from 0 to {}", classes - 1)
                  : fmt::format("labels from 0 to {}, or {} classes in the model", classes - 1, most + 1));
}

}  // namespace mtf
