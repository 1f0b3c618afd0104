#include "trainer/programs/convert/merge_lora.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <span>

#include "engine/base/error.h"
#include "engine/core/convert_elements.h"
#include "layers/lora.h"

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

}  // namespace

void merge_lora(ModelWeights& model, const std::function<double(const std::string& kernel)>& scale_of,
                const std::string& from) {
  for (ModelWeight& weight : model.weights) {
    const std::string down = weight.name + kLoraDown;
    if (std::ranges::find(model.weights, down, &ModelWeight::name) == model.weights.end()) continue;
    const HostTensor& a = value_of(model, down, from);
    const int64_t rank = a.shape[a.shape.rank() - 1].size;
    const Matrix narrow = matrix_of(a, a.shape.size() / rank);
    const Matrix wide = matrix_of(value_of(model, weight.name + kLoraUp, from), rank);
    Matrix merged = matrix_of(weight.value, narrow.rows());
    merged += static_cast<float>(scale_of(weight.name)) * (narrow * wide);
    weight.value = HostTensor(weight.value.shape, DType::kFloat32);
    std::ranges::copy(std::as_bytes(std::span(merged.data(), static_cast<size_t>(merged.size()))),
                      weight.value.bytes.begin());
  }
  std::erase_if(model.weights, [](const ModelWeight& weight) {
    return weight.name.ends_with(kLoraDown) || weight.name.ends_with(kLoraUp);
  });
}

}  // namespace mtf
