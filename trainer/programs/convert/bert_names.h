// The names of a BERT's tensors in Hugging Face format, and of those of the encoders that are built like it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {

/// The tensor of a variable of a BERT.
struct BertTensor : HuggingFaceTensor {
  bool has_row_of_each_id = false;      ///< its rows are in the order of the vocabulary's ids
  std::optional<TensorPart> part = {};  ///< nothing: the tensor holds this variable alone
};

/// Maps "transformer/block_000/layer_000/SelfAttention/q" to "bert.encoder.layer.0.attention.self.query.weight", transposed,
/// or to what the family of `bert` calls it. Returns nullopt for variables that such a model does not have.
std::optional<BertTensor> bert_tensor(const std::string& variable, const BertConfig& bert = {});

/// What begins the names of the encoder's tensors, unless a file has the encoder alone.
std::string_view encoder_prefix(BertFamily family);
/// True for a tensor of the layers that predict hidden tokens, or pairs of sentences.
bool is_of_pretraining(const std::string& tensor, BertFamily family);
/// True for a tensor that says what others say, or that no head of the family reads.
bool is_unread(const std::string& tensor, BertFamily family);
/// The tensor of which a tensor of the output layer is a copy, as long as it is no matrix or bias of its own; nothing: of none.
std::optional<std::string> original_of(const std::string& tensor, BertFamily family);

/// The names under which files may have a tensor: an encoder alone has no prefix, and in old files norms have gamma and beta.
std::vector<std::string> names_in_files(const std::string& tensor, BertFamily family);

}  // namespace mtf
