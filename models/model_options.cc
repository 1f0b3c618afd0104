#include "models/model_options.h"

namespace mtf {
namespace {

struct MakeModel {
  Diagnostics& diagnostics;

  std::unique_ptr<Model> operator()(const ClassifierOptions& options) const {
    return std::make_unique<Classifier>(options, diagnostics);
  }
  std::unique_ptr<Model> operator()(const RegressionOptions& options) const {
    return std::make_unique<Regression>(options, diagnostics);
  }
  std::unique_ptr<Model> operator()(const LanguageModelOptions& options) const {
    return std::make_unique<LanguageModel>(options, diagnostics);
  }
  std::unique_ptr<Model> operator()(const AlignedOptions& options) const {
    return std::make_unique<AlignedModel>(options, diagnostics);
  }
  std::unique_ptr<Model> operator()(const BitransformerOptions& options) const {
    return std::make_unique<Bitransformer>(options, diagnostics);
  }
  std::unique_ptr<Model> operator()(const later::Segmentation&) const { return nullptr; }
};

}  // namespace

std::unique_ptr<Model> make_model(const ModelOptions& options, Diagnostics& diagnostics) {
  return std::visit(MakeModel{diagnostics}, options);
}

std::unique_ptr<Model> make_model(const config::Node& section, Diagnostics& diagnostics) {
  return make_model(config::parse<ModelOptions>(section, diagnostics, "model"), diagnostics);
}

}  // namespace mtf
