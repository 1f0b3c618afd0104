#include "trainer/programs/convert/image_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>

#include "engine/base/error.h"
#include "engine/base/with_article.h"
#include "engine/core/convert_elements.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf {
namespace {

int64_t product_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Reverses the order of the axes of an array, of which there are at most three.
void reverse_axes(const float* from, std::vector<int64_t> axes, float* to) {
  axes.resize(3, 1);
  for (int64_t a = 0; a < axes[0]; ++a) {
    for (int64_t b = 0; b < axes[1]; ++b) {
      for (int64_t c = 0; c < axes[2]; ++c)
        to[(c * axes[1] + b) * axes[0] + a] = from[(a * axes[1] + b) * axes[2] + c];
    }
  }
}

std::vector<int64_t> reversed(std::vector<int64_t> axes) {
  axes.resize(3, 1);
  std::ranges::reverse(axes);
  return axes;
}

HostTensor imported_value(const Variable& variable, const ImageTensor& tensor, const StoredTensor& stored,
                          const std::string& from) {
  std::vector<int64_t> whole = tensor.shape;
  whole[0] *= tensor.parts;
  check_stored(stored, whole, from);
  const int64_t count = product_of(whole), own = count / tensor.parts;
  std::vector<float> values(static_cast<size_t>(count));
  convert_elements(stored.data.data(), stored.dtype, reinterpret_cast<std::byte*>(values.data()),
                   DType::kFloat32, count);
  std::vector<int64_t> axes = tensor.axes;
  if (tensor.change) {
    values = tensor.change(values);
    axes = {std::ssize(values)};
  }
  HostTensor value(variable.shape, DType::kFloat32);
  reverse_axes(values.data() + tensor.part * own, reversed(axes), value.data<float>());
  return value;
}

/// Throws Error if there is no such weight.
const ModelWeight& weight_of(const ModelWeights& model, const std::string& variable,
                             const std::string& from) {
  const auto weight = std::ranges::find(model.weights, variable, &ModelWeight::name);
  if (weight != model.weights.end()) return *weight;
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: variable `{}` of its config.yaml is not there", from, variable));
}

WrittenTensor exported_value(const ModelWeight& weight, const ImageTensor& tensor, const std::string& from) {
  const Shape& shape = weight.value.shape;
  if (shape.size() != product_of(tensor.shape))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: variable `{}` is {}, and its config.yaml says {} numbers", from, weight.name,
                            shape.to_string(), product_of(tensor.shape)));
  std::vector<float> values(static_cast<size_t>(shape.size()));
  convert_elements(weight.value.bytes.data(), weight.value.dtype, reinterpret_cast<std::byte*>(values.data()),
                   DType::kFloat32, shape.size());
  WrittenTensor written{tensor.name, tensor.shape, std::vector<float>(values.size())};
  reverse_axes(values.data(), tensor.axes, written.value.data());
  return written;
}

}  // namespace

ImageTensor same_tensor(std::string variable, std::string name, std::vector<int64_t> shape) {
  return {std::move(variable), std::move(name), {product_of(shape)}, std::move(shape)};
}

ImageTensor matrix_tensor(std::string variable, std::string name, int64_t inputs, int64_t outputs) {
  return {std::move(variable), std::move(name), {inputs, outputs}, {outputs, inputs}};
}

ImageTensor kernel_tensor(std::string variable, std::string name, std::pair<int64_t, int64_t> window,
                          int64_t channels, int64_t outputs) {
  return {std::move(variable),
          std::move(name),
          {window.first * window.second, channels, outputs},
          {outputs, channels, window.first, window.second}};
}

ImageTensor part_of(ImageTensor tensor, int64_t part, int64_t parts) {
  tensor.part = part;
  tensor.parts = parts;
  return tensor;
}

std::vector<std::string> import_tensors(const HuggingFaceFiles& files,
                                        const std::vector<ImageTensor>& tensors,
                                        const std::function<bool(const std::string& name)>& ignored,
                                        const std::string& from, std::string_view kind,
                                        HuggingFaceImport& import) {
  std::set<std::string> used;
  std::vector<std::string> missing;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const auto tensor = std::ranges::find(tensors, variable.name, &ImageTensor::variable);
    if (tensor == tensors.end()) {
      missing.push_back(variable.name);
      continue;
    }
    used.insert(tensor->name);
    import.model.weights.push_back(
        {variable.name, imported_value(variable, *tensor, files.at(tensor->name), from)});
  }
  files.check_unused(used, ignored, kind);
  return missing;
}

void export_tensors(const ModelWeights& model, const std::vector<ImageTensor>& tensors,
                    const std::string& from, std::string_view kind, const std::string& directory,
                    const std::vector<std::string>& counters, std::vector<WrittenTensor> others) {
  for (const ModelWeight& weight : model.weights) {
    if (std::ranges::find(tensors, weight.name, &ImageTensor::variable) == tensors.end())
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: {} has no variable `{}`", from, with_article(kind), weight.name));
  }
  std::vector<WrittenTensor> written;
  for (const ImageTensor& tensor : tensors) {
    WrittenTensor value = exported_value(weight_of(model, tensor.variable, from), tensor, from);
    if (tensor.part == 0) {
      written.push_back(std::move(value));
    } else {  // the part before was written last
      WrittenTensor& whole = written.back();
      whole.shape[0] += value.shape[0];
      std::ranges::copy(value.value, std::back_inserter(whole.value));
    }
  }
  std::ranges::move(others, std::back_inserter(written));
  write_tensors(written, directory, counters);
}

int64_t size_in(const ModelWeights& model, const std::string& variable, int axis, const std::string& from) {
  const Shape& shape = weight_of(model, variable, from).value.shape;
  if (axis < shape.rank()) return shape[axis].size;
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: variable `{}` is {}, which is another one than that of its config.yaml", from,
                          variable, shape.to_string()));
}

bool has_weight(const ModelWeights& model, const std::string& variable) {
  return std::ranges::find(model.weights, variable, &ModelWeight::name) != model.weights.end();
}

}  // namespace mtf
