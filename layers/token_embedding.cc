#include <fmt/format.h>

#include "layers/embedding.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct TokenEmbeddingOptions {
  static constexpr std::string_view shorthand = "output";
  Shape output;
  std::optional<int64_t> size;
  int64_t vocab_divisor = 128;
  Embedding embedding;
};

void describe(config::Visitor& visit, TokenEmbeddingOptions& options) {
  visit("output", options.output, "name and size of the vectors' dimension, as {d_model: 256}",
        config::required);
  visit("size", options.size, "how many ids there are (default: the vocabulary of the model's input)",
        config::positive);
  visit("vocab_divisor", options.vocab_divisor, "the vocabulary is filled up to a multiple of this",
        config::positive);
  visit("embedding", options.embedding, "how ids become vectors");
  visit.check([&options](const config::Report& report) {
    if (options.output.rank() != 1)
      report.error("output", fmt::format("{} is not one dimension", options.output.to_string()),
                   "for example {d_model: 256}");
  });
}

class TokenEmbeddingLayer final : public Layer {
 public:
  using Options = TokenEmbeddingOptions;
  explicit TokenEmbeddingLayer(const Options& options) : options_(options) {}
  bool reads_ids() const override { return true; }

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    if (is_floating(x.dtype())) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("embedding: x is {} {}, not ids", name_of(x.dtype()), x.shape().to_string()),
                  "it stands first, on a feature of ids");
    }
    const int64_t size = options_.size.value_or(context.input_vocabulary());
    if (size == 0) {
      throw Error(ErrorKind::kConfig, "embedding: it is not known how many ids there are",
                  "`size`, or a `data.vocabulary`");
    }
    const int64_t divisor = options_.vocab_divisor;
    const Dimension vocabulary{std::string(kVocabularyDimension), (size + divisor - 1) / divisor * divisor};
    const std::shared_ptr<const TokenEmbedding> embedding =
        options_.embedding->make(vocabulary, options_.output[0]);
    context.set_input_embedding({embedding, context.graph().scoped(""), vocabulary, options_.output[0]});
    return {embedding->embed(context, x), options_.output};
  }

 private:
  Options options_;
};

const LayerRegistration<TokenEmbeddingLayer> token_embedding_registration(
    "embedding", "y = table[x] for ids x: [.., length] -> [.., length, output]; ids outside give zeros",
    {"token_embedding", "embed", "lookup"});

}  // namespace
}  // namespace mtf
