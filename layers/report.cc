#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct ReportOptions {
  static constexpr std::string_view shorthand = "as";
  std::string as;
};

void describe(config::Visitor& visit, ReportOptions& options) {
  visit("as", options.as, "name of the numbers in the log: report/NAME/mean, report/NAME/mean_square",
        config::required);
}

class ReportLayer final : public Layer {
 public:
  using Options = ReportOptions;
  explicit ReportLayer(const Options& options) : as_(options.as) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    if (!context.training()) return x;
    const Tensor wide = stop_gradient(cast(x, DType::kFloat32));
    context.report(as_ + "/mean", reduce_mean(wide, Shape{}));
    context.report(as_ + "/mean_square", reduce_mean(square(wide), Shape{}));
    return x;
  }

 private:
  std::string as_;
};

const LayerRegistration<ReportLayer> report_registration(
    "report", "y = x; the log of training has the means of x and of x^2");

}  // namespace
}  // namespace mtf
