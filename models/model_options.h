// The section `model` of a configuration: which model `type:` chooses.
//
//   const auto options = config::parse<ModelOptions>(*root.find("model"), diagnostics, "model");
//   const std::unique_ptr<Model> model = make_model(options, diagnostics);
//   diagnostics.throw_if_errors();
#pragma once

#include <memory>
#include <variant>

#include "models/classifier.h"
#include "models/regression.h"

namespace mtf {

namespace later {
struct Segmentation {
  static constexpr std::string_view type_name = "segmentation";
  static constexpr bool later = true;
};
struct LanguageModel {
  static constexpr std::string_view type_name = "lm";
  static constexpr bool later = true;
};
struct DelimitedLanguageModel {
  static constexpr std::string_view type_name = "delimited_lm";
  static constexpr bool later = true;
};
struct Aligned {
  static constexpr std::string_view type_name = "aligned";
  static constexpr bool later = true;
};
struct Bitransformer {
  static constexpr std::string_view type_name = "bitransformer";
  static constexpr bool later = true;
};
}  // namespace later

using ModelOptions =
    std::variant<ClassifierOptions, RegressionOptions, later::Segmentation, later::LanguageModel,
                 later::DelimitedLanguageModel, later::Aligned, later::Bitransformer>;

/// The model, or nullptr for a type that was reported. What is wrong with its layers goes to `diagnostics`.
std::unique_ptr<Model> make_model(const ModelOptions& options, Diagnostics& diagnostics);
/// The same from the section itself.
std::unique_ptr<Model> make_model(const config::Node& section, Diagnostics& diagnostics);

}  // namespace mtf
