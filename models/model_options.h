// The section `model` of a configuration: which model `type:` chooses.
//
//   const auto options = config::parse<ModelOptions>(*root.find("model"), diagnostics, "model");
//   const std::unique_ptr<Model> model = make_model(options, diagnostics);
//   diagnostics.throw_if_errors();
#pragma once

#include <memory>
#include <variant>

#include "models/bitransformer.h"
#include "models/classifier.h"
#include "models/regression.h"
#include "models/transformer.h"

namespace mtf {

namespace later {
struct Segmentation {
  static constexpr std::string_view type_name = "segmentation";
  static constexpr bool later = true;
};
}  // namespace later

using ModelOptions =
    std::variant<ClassifierOptions, RegressionOptions, later::Segmentation, LanguageModelOptions,
                 DelimitedLanguageModelOptions, AlignedOptions, BitransformerOptions>;

/// The model, or nullptr for a type that was reported. What is wrong with its layers goes to `diagnostics`.
std::unique_ptr<Model> make_model(const ModelOptions& options, Diagnostics& diagnostics);
/// The same from the section itself.
std::unique_ptr<Model> make_model(const config::Node& section, Diagnostics& diagnostics);

}  // namespace mtf
