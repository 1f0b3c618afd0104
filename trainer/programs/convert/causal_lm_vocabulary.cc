#include "trainer/programs/convert/causal_lm_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/vocabulary/renumbering.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChatTemplate = "chat_template.jinja";

/// Returns a token of tokenizer_config.json: a text, or an object with one.
std::optional<std::string> special_token(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json token = given.is_object() ? given.value("content", nlohmann::json()) : given;
  if (!token.is_string()) json.fail(fmt::format("`{}` is {}, no token", key, given.dump()));
  return token.get<std::string>();
}

/// True if each turn of a chat begins with the token: then it stands in the middle of texts, too.
bool begins_turns(const std::string& from, const HuggingFaceJson& json, const std::string& token) {
  const std::string file = from + "/" + kChatTemplate;
  const std::string chat = fs::exists(file)            ? read_text_file(file)
                           : json.has("chat_template") ? json.at("chat_template").dump()
                                                       : "";
  const size_t first = chat.find(token);
  return first != std::string::npos && chat.find(token, first + token.size()) != std::string::npos;
}

/// Returns the token of an id. Throws Error (kCheckpoint) for an id without one.
std::string token_of(const TokenizerIds& tokens, int32_t id, const std::string& from) {
  const std::optional<std::string> token = tokens.token(id);
  if (!token)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}/{} has no token with the id {}", from, kTokenizer, id),
                "config.json and this file are not of one model");
  return *token;
}

}  // namespace

std::string vocabulary_text(const std::string& path, const std::optional<std::string>& begin,
                            const std::string& end, int64_t size) {
  return fmt::format("{{type: hugging_face, path: {}, begin: {}, end: {}, size: {}}}", quoted(path),
                     begin ? quoted(*begin) : "null", quoted(end), size);
}

void note_dropped_tokens(const std::vector<std::string>& dropped, std::vector<std::string>& notes) {
  for (const std::string& token : dropped)
    notes.push_back(fmt::format("`{}` of {} has no row in the embedding: it is plain text", printable(token),
                                kTokenizer));
}

void note_missing_tokenizer(const std::string& from, std::vector<std::string>& notes) {
  notes.push_back(
      fmt::format("in Python, `AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")` writes {1}",
                  from, kTokenizer));
}

void check_tokens(const TokenizerIds& tokens, const std::string& file, int64_t rows) {
  if (tokens.size() > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tokens, and the embedding only {} rows", file, tokens.size(), rows));
}

std::string settle_vocabulary(const std::string& from, const ImportTarget& target, CausalLmConfig& lm,
                              HuggingFaceImport& import) {
  const HuggingFaceJson json = tokenizer_config_of(from);
  std::optional<std::string> begin = special_token(json, "bos_token"), end = special_token(json, "eos_token");
  const std::string file = from + "/" + kTokenizer;
  std::optional<TokenizerIds> tokens;
  if (fs::exists(file)) tokens.emplace(file);
  if (tokens) {
    note_dropped_tokens(tokens->drop_added_from(lm.vocab_size), import.notes);
    check_tokens(*tokens, file, lm.vocab_size);
  }
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
  const std::string path = vocabulary_path(from, kTokenizer, target, import);
  if (!tokens) note_missing_tokenizer(from, import.notes);
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (const std::string other = from + "/" + name; !target.is_file && fs::exists(other))
      import.files.emplace_back(name, read_text_file(other));
  }
  if (!lm.begin) begin.reset();
  // Without files names stand for the ids of config.json.
  if (lm.begin && !begin) begin = fmt::format("id {}", *lm.begin);
  return vocabulary_text(path, begin, end.value_or(fmt::format("id {}", *lm.end)), lm.vocab_size);
}

FileIds file_ids_in(const HuggingFaceOptions& vocabulary, const Mark& mark) {
  const std::string& path = vocabulary.path.text;
  if (!fs::exists(path))
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("there is no {}, which says what ids the model has in Hugging Face form", path),
                "the tokenizer.json of the model, as `data.vocabulary.path`");
  TokenizerIds tokens(path);
  if (vocabulary.size) tokens.drop_added_from(*vocabulary.size);
  const auto id_of = [&](const std::string& token) {
    const std::optional<int32_t> id = tokens.id(token);
    if (!id)
      throw Error(ErrorKind::kConfig, mark, fmt::format("{} has no token {}", path, token),
                  "one of its tokens");
    return *id;
  };
  FileIds ids{.size = vocabulary.size.value_or(tokens.size()), .begin = {}, .end = id_of(vocabulary.end)};
  if (vocabulary.begin) ids.begin = id_of(*vocabulary.begin);
  if (tokens.size() > ids.size)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("{} has {} tokens, and `size` is {}", path, tokens.size(), ids.size),
                fmt::format("`size: {}`, or more", tokens.size()));
  if (ids.begin == ids.end)
    throw Error(ErrorKind::kConfig, mark, fmt::format("{} both begins and ends texts", vocabulary.end),
                "`begin: null`");
  return ids;
}

std::vector<int32_t> settle_ids(const FileIds& ids, int64_t rows, CausalLmConfig& lm) {
  std::vector<int32_t> file_ids = file_ids_of(ids);
  if (std::ssize(file_ids) > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("the vocabulary has {} ids, and the embedding {} rows", file_ids.size(), rows));
  for (int64_t id = ids.size; std::ssize(file_ids) < rows; ++id) file_ids.push_back(static_cast<int32_t>(id));
  lm.begin = ids.begin;
  lm.end = ids.end;
  lm.vocab_size = ids.begin ? rows : rows - 1;
  return file_ids;
}

std::optional<HuggingFaceOptions> exported_vocabulary(const Config& config, std::vector<std::string>& notes) {
  if (config.data.vocabulary) {
    const LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
    if (const auto* vocabulary = language.get_if<HuggingFaceOptions>()) return *vocabulary;
  }
  notes.emplace_back(
      "without files of the vocabulary: it is none of Hugging Face's; texts begin with id 0 and end with id "
      "1");
  return std::nullopt;
}

void copy_tokenizer(const HuggingFaceOptions& vocabulary, const std::string& directory) {
  const fs::path file = vocabulary.path.text;
  write_text_file(directory + "/" + kTokenizer, read_text_file(file.string()));
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (const fs::path other = file.parent_path() / name; fs::exists(other))
      write_text_file(directory + "/" + name, read_text_file(other.string()));
  }
}

}  // namespace mtf
