// The vocabulary of an encoder: its files in Hugging Face format and `data.vocabulary`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Returns the value of `data.vocabulary`: pieces of words, or a tokeniser, whose tokens `bert` gets. Files to
/// copy and notes are added to `import`.
std::string settle_bert_vocabulary(const std::string& from, const ImportTarget& target, BertConfig& bert,
                                   HuggingFaceImport& import);

/// The vocabulary of an exported model.
struct ExportedBertVocabulary {
  std::string yaml;               ///< value of `data.vocabulary`
  std::vector<int32_t> file_ids;  ///< the id in the files of each row of the embedding
};

/// Returns the vocabulary of a model whose embedding has so many rows, and sets what tokenizer.json says: its ids, its
/// size and which RoBERTa it is. Throws Error (kConfig, kCheckpoint) for one that does not suit.
ExportedBertVocabulary exported_bert_vocabulary(const Config& config, int64_t rows, BertConfig& bert);
/// Writes the files of the vocabulary into a directory; a note says why there are none.
void write_bert_vocabulary(const Config& config, const BertConfig& bert, const std::string& directory,
                           std::vector<std::string>& notes);

}  // namespace mtf
