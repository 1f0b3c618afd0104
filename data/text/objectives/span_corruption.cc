// Spans of a text are taken out, and the model writes them: the objective of T5.
#include "data/text/objectives/denoising.h"

namespace mtf {
namespace {

struct SpanCorruptionOptions final : DenoiserOptions {
  static constexpr std::string_view type_name = "span_corruption";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"t5", "`span_corruption`"},
                                              CommonName{"denoising", "`span_corruption` or `ul2`"}};
  SpanNoise noise;

  Denoiser denoiser() const override { return {.noise = noise, .mode = mode}; }
};

void describe(config::Visitor& visit, SpanCorruptionOptions& options) {
  describe_noise(visit, options.noise);
  describe_mode(visit, options.mode);
  describe_rows(visit, options.rows);
}

const config::Registration<ObjectiveOptions, SpanCorruptionOptions> span_corruption;

}  // namespace
}  // namespace mtf
