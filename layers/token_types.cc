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
  int64_t second_text = 1;
  InitializerOptions initializer = TruncatedNormalInitializer{0.02};
};

void describe(config::Visitor& visit, TokenTypesOptions& options) {
  visit("types", options.types, "how many types there are", config::positive);
  visit("second_text", options.second_text,
        "the type of the second text of a row; 0: that of the first, as in RoBERTa", config::at_least(0),
        config::at_most(1));
  visit("initializer", options.initializer, "initial values of the table");
}

class TokenTypesLayer final : public Layer {
 public:
  using Options = TokenTypesOptions;
  explicit TokenTypesLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape model = context.made(x);
    const Dimension types{"token_type", options_.types};
    const auto table = [&] {
      const Initializer initializer = make_initializer(options_.initializer, types.size, model.size());
      return context.variable("embedding", Shape{types} + model, initializer);
    };
    if (options_.second_text == 0) return add(x, gather(table(), 0, types.name), x.shape());
    const Tensor& type = context.input_tokens().type;
    if (!type) {
      throw Error(ErrorKind::kConfig, "token_types: the data do not tell the types of tokens",
                  "a source of labelled texts, whose feature `inputs_type` does");
    }
    if (options_.types < 2 && !context.input_tokens().one_text) {
      throw Error(ErrorKind::kConfig,
                  "token_types: the data have pairs of texts, and no type for the second text",
                  "`types: 2`, texts without pairs, or `second_text: 0`");
    }
    return add(x, gather(table(), type, types.name), x.shape());
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
