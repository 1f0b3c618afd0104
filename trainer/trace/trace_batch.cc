#include "trainer/trace/trace_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "data/sources/idx.h"
#include "engine/base/nearest.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// The prefix of the name of a feature.
constexpr std::string_view kInput = "input/";

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string input_name(std::string_view feature) { return std::string(kInput) + std::string(feature); }

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> names_in(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

/// Returns other names that a feature's tensor may have in the file.
std::vector<std::string> aliases(const Session& session, const std::string& feature) {
  // Features of equal content stand in the file once.
  if (const auto* source = std::get_if<SourceChoice>(&*session.config.data.train)) {
    if (const std::string same = (*source)->same_feature(feature); !same.empty()) return {input_name(same)};
  }
  // Without inputs, the names of segmentation and position need no prefix.
  constexpr std::string_view targets = "targets_";
  if (feature.starts_with(targets)) return {input_name(feature.substr(targets.size()))};
  return {};
}

/// Returns the tensor of a feature; null if the file does not have it.
const StoredTensor* input_of(const Session& session, const SafetensorsFile& file,
                             const std::string& feature) {
  if (const StoredTensor* stored = file.find(input_name(feature))) return stored;
  for (const std::string& alias : aliases(session, feature)) {
    if (const StoredTensor* stored = file.find(alias)) return stored;
  }
  return nullptr;
}

/// Returns the features of data.train. The sizes of images, which are known only from its files, are those of
/// the batch.
std::vector<Feature> features_of_data(const Session& session, const SafetensorsFile& file) {
  if (session.train_data) return session.train_data->features();
  const StoredTensor* image = file.find(input_name(kImageFeature));
  if (!image) return idx_features(1, 1);  // missing features are reported later
  if (image->shape.size() != 3) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: `{}` is {}", file.path(), image->name, shape_text(image->shape)),
                "images [batch, rows, cols]");
  }
  return idx_features(image->shape[1], image->shape[2]);
}

/// The prefix of texts for decoding, which recorded test cases contain besides the targets. A trace ignores
/// it.
constexpr std::string_view kBeginnings = "input/partial";

/// Throws Error if an input is not one of the features.
void check_names(const Session& session, const SafetensorsFile& file, const std::vector<Feature>& features) {
  std::vector<std::string> known;
  for (const Feature& feature : features) {
    known.push_back(input_name(feature.name));
    if (file.find(known.back())) continue;
    for (const std::string& alias : aliases(session, feature.name)) {
      if (!is_among(known, alias)) known.push_back(alias);
    }
  }
  for (const std::string& name : names_in(file)) {
    const bool beginnings = name == kBeginnings && is_among(known, input_name("targets"));
    if (!name.starts_with(kInput) || is_among(known, name) || beginnings) continue;
    throw Error(ErrorKind::kData, fmt::format("{}: `{}` is no feature of data.train", file.path(), name),
                did_you_mean(name, known));
  }
}

}  // namespace

HostTensor to_host(const SafetensorsFile& file, const StoredTensor& stored, const Shape& shape, DType dtype) {
  const bool fits = std::ranges::equal(stored.shape, shape, {}, {}, &Dimension::size);
  if (!fits || stored.dtype != dtype) {
    throw Error(ErrorKind::kData, fmt::format("{}: `{}` is {} {}, and the model needs {} {}", file.path(),
                                              stored.name, name_of(stored.dtype), shape_text(stored.shape),
                                              name_of(dtype), shape.to_string()));
  }
  HostTensor tensor(shape, dtype);
  std::memcpy(tensor.bytes.data(), stored.data.data(), stored.data.size());
  return tensor;
}

TraceBatch::TraceBatch(const Session& session, const SafetensorsFile& file) : file_(file) {
  const std::vector<std::string> needed = session.model->features(),
                                 useful = session.model->optional_features();
  const std::vector<Feature> all = features_of_data(session, file);
  for (const Feature& feature : all) {
    const StoredTensor* stored = input_of(session, file, feature.name);
    if (stored == nullptr && is_among(needed, feature.name)) {
      const std::string name = input_name(feature.name);
      throw Error(ErrorKind::kData, fmt::format("{}: there is no `{}`", file.path(), name),
                  did_you_mean(name, names_in(file)));
    }
    if (stored && (is_among(needed, feature.name) || is_among(useful, feature.name))) add(feature, *stored);
  }
  check_names(session, file, all);
  for (const Feature& feature : features_) {
    if (feature.vocabulary > 0) {
      // A negative target is read by the decoder but has no loss.
      const int64_t last = feature.vocabulary - 1;
      check_range(feature.name, feature.name == "targets" ? -last : 0, last, "an id");
    } else if (feature.name.ends_with("_position")) {
      const int64_t row = feature.shape.dimension("length").size;
      if (const auto positions = session.model->positions(row))
        check_range(feature.name, 0, *positions - 1, "a position");
    }
  }
}

void TraceBatch::add(const Feature& feature, const StoredTensor& stored) {
  const int64_t size = stored.shape.empty() ? 0 : stored.shape[0];
  if (size < 1 || (size_ > 0 && size != size_)) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: `{}` is {}; all features have the batch as their first dimension",
                            file_.path(), stored.name, shape_text(stored.shape)));
  }
  size_ = size;
  const Shape shape = Shape{{std::string(kBatch), size}} + feature.shape;
  inputs_.push_back({feature.name, stored.name, to_host(file_, stored, shape, feature.dtype)});
  features_.push_back(feature);
}

void TraceBatch::check_range(const std::string& feature, int64_t least, int64_t most,
                             const std::string& what) const {
  check_values(
      feature, [&](int64_t value) { return value >= least && value <= most; },
      fmt::format("{} is from {} to {}", what, least, most));
}

void TraceBatch::check_values(const std::string& feature, const std::function<bool(int64_t value)>& is_right,
                              const std::string& rule) const {
  const Input& input = *std::ranges::find(inputs_, feature, &Input::feature);
  const HostTensor& tensor = input.tensor;
  const std::span<const int32_t> values(tensor.data<int32_t>(), static_cast<size_t>(tensor.shape.size()));
  const auto wrong = std::ranges::find_if(values, [&](int64_t value) { return !is_right(value); });
  if (wrong == values.end()) return;
  const int64_t each = tensor.shape.size() / size_, at = wrong - values.begin();
  throw Error(ErrorKind::kData, fmt::format("{}: `{}` has {} in row {}, at {}, and {}", file_.path(),
                                            input.name, *wrong, at / each, at % each, rule));
}

void TraceBatch::check_labels(const LabelRange& expected) const {
  const auto labels = std::ranges::find(features_, expected.feature, &Feature::name);
  if (labels == features_.end() || labels->dtype != DType::kInt32) return;
  check_values(
      labels->name, [&](int64_t label) { return expected.contains(label); },
      fmt::format("a class is from 0 to {}", expected.classes - 1));
}

void TraceBatch::feed(Executor& executor) const {
  for (const Input& input : inputs_) {
    if (executor.program().input(input.feature) != kNoValue)
      executor.feed(input.feature, input.tensor.bytes.data());
  }
}

}  // namespace mtf
