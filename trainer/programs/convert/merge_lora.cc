#include "trainer/programs/convert/merge_lora.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <map>
#include <span>

#include "engine/base/error.h"
#include "engine/config/load.h"
#include "engine/core/convert_elements.h"
#include "layers/attention.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix matrix_of(const HostTensor& tensor, int64_t rows) {
  const int64_t size = tensor.shape.size();
  Matrix matrix(rows, size / rows);
  convert_elements(tensor.bytes.data(), tensor.dtype, reinterpret_cast<std::byte*>(matrix.data()),
                   DType::kFloat32, size);
  return matrix;
}

const HostTensor& value_of(const ModelWeights& model, const std::string& name, const std::string& from) {
  const auto found = std::ranges::find(model.weights, name, &ModelWeight::name);
  if (found == model.weights.end())
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: there is no variable `{}`, which a low-rank update needs", from, name));
  return found->value;
}

/// Finds `lora` in the options of layers, by their kind.
void collect_scales(const config::Node& node, std::map<std::string, double>& scales) {
  for (const config::Node& element : node.elements()) collect_scales(element, scales);
  for (const config::Entry& entry : node.entries()) {
    collect_scales(entry.value, scales);
    const config::Node* lora = entry.value.find("lora");
    if (lora == nullptr || lora->is_null()) continue;
    Diagnostics diagnostics;
    const double scale = config::parse<AttentionLora>(*lora, diagnostics, "lora").scale();
    diagnostics.throw_if_errors();
    if (!scales.emplace(entry.key, scale).second && scales.at(entry.key) != scale)
      throw Error(ErrorKind::kConfig, lora->mark(),
                  fmt::format("layers of the kind {} have other quotients of `alpha` and `rank`", entry.key),
                  "the same for all, in `layer_defaults`");
  }
}

double scale_of(const std::string& kernel, const std::map<std::string, double>& scales, const Mark& mark) {
  for (const std::string& part : parts_of(kernel)) {
    if (const auto found = scales.find(part); found != scales.end()) return found->second;
  }
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("no layer says how much the update of `{}` counts", kernel),
              "`lora` in `layer_defaults` or in the block, for layers without a `name`");
}

}  // namespace

void merge_lora(ModelWeights& model, const config::Node& section, const std::string& from) {
  std::map<std::string, double> scales;
  collect_scales(section, scales);
  for (ModelWeight& weight : model.weights) {
    const std::string down = weight.name + kLoraDown;
    if (std::ranges::find(model.weights, down, &ModelWeight::name) == model.weights.end()) continue;
    const HostTensor& a = value_of(model, down, from);
    const int64_t rank = a.shape[a.shape.rank() - 1].size;
    const Matrix narrow = matrix_of(a, a.shape.size() / rank);
    const Matrix wide = matrix_of(value_of(model, weight.name + kLoraUp, from), rank);
    Matrix merged = matrix_of(weight.value, narrow.rows());
    merged += static_cast<float>(scale_of(weight.name, scales, section.mark())) * (narrow * wide);
    weight.value = HostTensor(weight.value.shape, DType::kFloat32);
    std::ranges::copy(std::as_bytes(std::span(merged.data(), static_cast<size_t>(merged.size()))),
                      weight.value.bytes.begin());
  }
  std::erase_if(model.weights, [](const ModelWeight& weight) {
    return weight.name.ends_with(kLoraDown) || weight.name.ends_with(kLoraUp);
  });
}

}  // namespace mtf
