#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/indexing.h"
#include "layers/initializer.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct TokenTypesOptions {
  static constexpr std::string_view shorthand = "types";
  int64_t types = 2;
  InitializerOptions initializer = TruncatedNormalInitializer{0.02};
};

void describe(config::Visitor& visit, TokenTypesOptions& options) {
  visit("types", options.types, "how many types there are", config::positive);
  visit("initializer", options.initializer, "initial values of the table");
}

class TokenTypesLayer final : public Layer {
 public:
  using Options = TokenTypesOptions;
  explicit TokenTypesLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Tensor& type = context.input_tokens().type;
    if (!type) {
      throw Error(ErrorKind::kConfig, "token_types: the data do not tell the types of tokens",
                  "a source of labelled texts, whose feature `inputs_type` does");
    }
    if (options_.types < 2 && !context.input_tokens().one_text) {
      throw Error(ErrorKind::kConfig,
                  "token_types: the data have pairs of texts, and no type for the second text",
                  "`types: 2`, or texts without pairs");
    }
    const Shape model = context.made(x);
    const Dimension types{"token_type", options_.types};
    const Initializer initializer = make_initializer(options_.initializer, types.size, model.size());
    const Tensor table = context.variable("embedding", Shape{types} + model, initializer);
    return add(x, gather(table, type, types.name), x.shape());
  }

 private:
  Options options_;
};

const LayerRegistration<TokenTypesLayer> token_types(
    "token_types",
    "y = x + a learned vector for the type of the token: 0 in the first text of a row, 1 in the second",
    {"token_type_embeddings", "segment_embeddings"});

}  // namespace
}  // namespace mtf
