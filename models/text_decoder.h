// A model that writes texts token by token, as the two programs of decoding: one reads what is given, the
// other one token of each hypothesis. Attention layers keep what they have seen in session variables
// (layers/decoding.h).
//
//   if (const TextDecoder* decoder = model.decoder()) logits = decoder->step(context, sizes, input);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "layers/attention.h"

namespace mtf {

/// The name of the hypotheses of a text.
inline constexpr std::string_view kBeam = "beam";

struct DecodeSizes {
  int64_t texts = 1;   ///< dimension context.batch()
  int64_t beam = 1;    ///< hypotheses of each text, dimension `beam`
  int64_t inputs = 0;  ///< tokens of the longest input; 0: there is no encoder
  int64_t prefix = 1;  ///< ids that the prefill reads
  int64_t memory = 1;  ///< tokens that a text can have

  Dimension beam_dimension() const { return {std::string(kBeam), beam}; }
  Dimension memory_dimension() const { return {std::string(kMemoryLength), memory}; }
};

class TextDecoder {
 public:
  virtual ~TextDecoder() = default;

  /// It reads `inputs`; otherwise it goes on with what is given.
  virtual bool has_encoder() const = 0;
  /// A given text always ends with the end of sequence, whatever the model was trained on.
  virtual bool ends_prompts() const { return false; }
  /// The id of the token that it reads before a text: padding (0), or the end of sequence (1).
  virtual int32_t start_token() const { return 0; }
  /// False if padding has no probability.
  virtual bool predicts_padding() const { return true; }
  /// Tokens that its positions are made for; nothing: any number.
  virtual std::optional<int64_t> longest_text() const = 0;

  struct Prefill {
    Tensor inputs = {};  ///< int32 [batch, length], 0 behind the end; null without encoder
    Tensor prefix;       ///< int32 [batch, length]: 0, then the tokens that are given
    Tensor position;     ///< int32 [batch]: index of the last one in `prefix`
    Tensor prompt;       ///< int32 [batch]: so many of them are the prompt; the others begin the text
  };
  /// [batch, vocab]: logits of the token behind the prefix.
  virtual Tensor prefill(Context& context, const DecodeSizes& sizes, const Prefill& input) const = 0;

  struct Step {
    Tensor token;        ///< int32 [batch, beam]
    Tensor position;     ///< int32 [batch]: where it stands, behind a leading 0
    Tensor parent = {};  ///< int32 [batch, beam]: the hypothesis of the step before; null: the same
    Tensor common = {};  ///< int32 [batch, beam], with `parent`: the first entries that their caches share
    Tensor shared_prefix =
        {};  ///< int32 [batch]: the first entries that the caches of all then share; null: not known
  };
  /// [batch, beam, vocab]: logits of the next token of each hypothesis.
  virtual Tensor step(Context& context, const DecodeSizes& sizes, const Step& input) const = 0;
};

}  // namespace mtf
