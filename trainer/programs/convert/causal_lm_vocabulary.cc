#include "trainer/programs/convert/causal_lm_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/base/error.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// True if each turn of a chat begins with the token: then it stands in the middle of texts, too.
bool begins_turns(const std::string& from, const HuggingFaceJson& json, const std::string& token) {
  const std::string file = from + "/" + kChatTemplate;
  const std::string chat = fs::exists(file)            ? read_text_file(file)
                           : json.has("chat_template") ? json.at("chat_template").dump()
                                                       : "";
  const size_t first = chat.find(token);
  return first != std::string::npos && chat.find(token, first + token.size()) != std::string::npos;
}

}  // namespace

std::string settle_vocabulary(const std::string& from, const ImportTarget& target, CausalLmConfig& lm,
                              HuggingFaceImport& import) {
  const HuggingFaceJson json = tokenizer_config_of(from);
  std::optional<std::string> begin = special_token(json, "bos_token"), end = special_token(json, "eos_token");
  const std::optional<TokenizerIds> tokens = tokenizer_ids_of(from, lm.vocab_size, import);
  if (tokens && end) {  // that of a chat model ends a turn, and comes before what config.json says
    lm.end = tokens->id(*end);
    if (!lm.end) json.fail(fmt::format("`eos_token` {} is no token of {}", *end, kTokenizer));
  }
  if (!lm.end)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}/config.json does not say which token ends a text", from),
                "`eos_token_id`, or `eos_token` in tokenizer_config.json");
  if (lm.begin == lm.end) lm.begin.reset();
  if (tokens) {
    end = token_of(*tokens, *lm.end, from);
    if (lm.begin) begin = token_of(*tokens, *lm.begin, from);
    if (lm.begin && begins_turns(from, json, *begin)) lm.begin.reset();
  }
  lm.predicts_padding = lm.begin.has_value();
  const std::string path = add_tokenizer_files(from, target, import);
  if (!lm.begin) begin.reset();
  // Without files names stand for the ids of config.json.
  if (lm.begin && !begin) begin = fmt::format("id {}", *lm.begin);
  return vocabulary_text(path, begin, end.value_or(fmt::format("id {}", *lm.end)), lm.vocab_size);
}

std::vector<int32_t> settle_ids(const FileIds& ids, int64_t rows, CausalLmConfig& lm) {
  std::vector<int32_t> file_ids = file_ids_of_rows(ids, rows);
  lm.begin = ids.begin;
  lm.end = ids.end;
  lm.vocab_size = ids.begin ? rows : rows - 1;
  return file_ids;
}

}  // namespace mtf
