// The model reads the beginning of a text and writes the rest.
#include "data/text/objectives/denoising.h"

namespace mtf {
namespace {

struct PrefixLmOptions final : DenoiserOptions {
  static constexpr std::string_view type_name = "prefix_lm";
  static constexpr bool type_required = true;

  Denoiser denoiser() const override { return {.prefix = true, .mode = mode}; }
};

void describe(config::Visitor& visit, PrefixLmOptions& options) {
  describe_mode(visit, options.mode);
  describe_rows(visit, options.rows);
}

const config::Registration<ObjectiveOptions, PrefixLmOptions> prefix_lm;

}  // namespace
}  // namespace mtf
