// The source `split`: a part of data.train that `data.split` holds out.
#include "data/sources/held_out.h"

#include <fmt/format.h>

#include "data/source_options.h"
#include "data/text/text_settings.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

struct HeldOutOptions final : SourceOptions {
  static constexpr std::string_view type_name = kHeldOut;
  static constexpr bool type_required = true;

  /// Never for evaluate.datasets: these parts are opened with data.train.
  std::unique_ptr<Source> open(const SourceContext& context) const override {
    throw Error(ErrorKind::kConfig, context.mark, "a source `split` is a part of `data.train` itself",
                "it stands in `evaluate.datasets`, under a name of `data.split`");
  }
};

void describe(config::Visitor&, HeldOutOptions&) {}

const config::Registration<SourceOptions, HeldOutOptions> held_out_registration;

}  // namespace
}  // namespace mtf
