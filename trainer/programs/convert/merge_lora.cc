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

/// Finds `alpha` of the low-rank updates of all layers in lists, by the kind of layer; `defaults`: model.layer_defaults.
class Alphas {
 public:
  Alphas(const config::Node& section) : defaults_(section.find("layer_defaults")), mark_(section.mark()) {
    visit(section);
  }

  double of(const std::string& kernel) const {
    for (const std::string& part : parts_of(kernel)) {
      if (const auto found = alphas_.find(part); found != alphas_.end()) return found->second;
    }
    throw Error(ErrorKind::kConfig, mark_,
                fmt::format("no layer says how much the low-rank update of `{}` counts", kernel),
                "`lora` of layers without a `name`");
  }

 private:
  void visit(const config::Node& node) {
    for (const config::Node& element : node.elements()) {
      if (element.kind() == config::Node::Kind::kScalar)
        add(element.text(), config::Node::map({}), element.mark());
      for (const config::Entry& layer : element.entries()) {
        add(layer.key, layer.value, layer.mark);
        visit(layer.value);
      }
    }
    for (const config::Entry& entry : node.entries()) visit(entry.value);
  }

  void add(const std::string& kind, const config::Node& own, const Mark& mark) {
    const config::Node* base = defaults_ ? defaults_->find(kind) : nullptr;
    const config::Node options = base ? config::merge(*base, own) : own;
    const config::Node* lora = options.find("lora");
    if (lora == nullptr || lora->is_null()) return;
    Diagnostics diagnostics;
    const double alpha = config::parse<AttentionLora>(*lora, diagnostics, "lora").alpha;
    diagnostics.throw_if_errors();
    if (alphas_.emplace(kind, alpha).first->second != alpha)
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("layers of the kind {} have several `lora.alpha`", kind),
                  "the same for all, in `layer_defaults`");
  }

  const config::Node* defaults_;
  Mark mark_;
  std::map<std::string, double> alphas_;
};

}  // namespace

void merge_lora(ModelWeights& model, const config::Node& section, const std::string& from) {
  const Alphas alphas(section);
  for (ModelWeight& weight : model.weights) {
    const std::string down = weight.name + kLoraDown;
    if (std::ranges::find(model.weights, down, &ModelWeight::name) == model.weights.end()) continue;
    const HostTensor& a = value_of(model, down, from);
    const int64_t rank = a.shape[a.shape.rank() - 1].size;
    const Matrix narrow = matrix_of(a, a.shape.size() / rank);
    const Matrix wide = matrix_of(value_of(model, weight.name + kLoraUp, from), rank);
    Matrix merged = matrix_of(weight.value, narrow.rows());
    const double scale = alphas.of(weight.name) / static_cast<double>(rank);
    merged += static_cast<float>(scale) * (narrow * wide);
    weight.value = HostTensor(weight.value.shape, DType::kFloat32);
    std::ranges::copy(std::as_bytes(std::span(merged.data(), static_cast<size_t>(merged.size()))),
                      weight.value.bytes.begin());
  }
  std::erase_if(model.weights, [](const ModelWeight& weight) {
    return weight.name.ends_with(kLoraDown) || weight.name.ends_with(kLoraUp);
  });
}

}  // namespace mtf
