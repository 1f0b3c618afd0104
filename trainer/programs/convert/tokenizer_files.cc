#include "trainer/programs/convert/tokenizer_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "trainer/programs/convert/byte_level_files.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// Returns the text of tokenizer.json, or of what vocab.json and merges.txt make in its place; nothing: there is neither.
std::optional<std::string> tokenizer_text(const std::string& from) {
  const std::string file = from + "/" + kTokenizer;
  return fs::exists(file) ? read_text_file(file) : byte_level_tokenizer(from);
}

}  // namespace

std::string vocabulary_text(const std::string& path, const std::optional<std::string>& begin,
                            const std::string& end, int64_t size) {
  return fmt::format("{{type: hugging_face, path: {}, begin: {}, end: {}, size: {}}}", quoted(path),
                     begin ? quoted(*begin) : "null", quoted(end), size);
}

std::optional<std::string> special_token(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json token = given.is_object() ? given.value("content", nlohmann::json()) : given;
  if (!token.is_string()) json.fail(fmt::format("`{}` is {}, no token", key, given.dump()));
  return token.get<std::string>();
}

std::optional<TokenizerIds> tokenizer_ids_of(const std::string& from, int64_t rows,
                                             HuggingFaceImport& import) {
  const std::string file = from + "/" + kTokenizer;
  const std::optional<std::string> text = tokenizer_text(from);
  if (!text) return std::nullopt;
  TokenizerIds tokens(*text, file);
  for (const std::string& token : tokens.drop_added_from(rows))
    import.notes.push_back(fmt::format("`{}` of {} has no row in the embedding: it is plain text",
                                       printable(token), kTokenizer));
  if (tokens.size() > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tokens, and the embedding only {} rows", file, tokens.size(), rows));
  return tokens;
}

std::string token_of(const TokenizerIds& tokens, int32_t id, const std::string& from) {
  const std::optional<std::string> token = tokens.token(id);
  if (!token)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}/{} has no token with the id {}", from, kTokenizer, id),
                "config.json and this file are not of one model");
  return *token;
}

std::string add_tokenizer_files(const std::string& from, const ImportTarget& target,
                                HuggingFaceImport& import) {
  const bool has_file = fs::exists(from + "/" + kTokenizer);
  const std::optional<std::string> made = has_file ? std::nullopt : byte_level_tokenizer(from);
  std::string path;
  if (made && !target.is_file) {
    path = target.path + "/" + kTokenizer;
    import.files.emplace_back(kTokenizer, *made);
  } else {
    path = vocabulary_path(from, kTokenizer, target, import);
  }
  if (made && target.is_file)
    import.notes.push_back(fmt::format(
        "converted to a directory, the model has a {} made of vocab.json and merges.txt", kTokenizer));
  if (!has_file && !made)
    import.notes.push_back(
        fmt::format("in Python, `AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")` writes {1}",
                    from, kTokenizer));
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (const std::string other = from + "/" + name; !target.is_file && fs::exists(other))
      import.files.emplace_back(name, read_text_file(other));
  }
  return path;
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

std::vector<int32_t> file_ids_of_rows(const FileIds& ids, int64_t rows) {
  std::vector<int32_t> file_ids = file_ids_of(ids);
  if (std::ssize(file_ids) > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("the vocabulary has {} ids, and the embedding {} rows", file_ids.size(), rows));
  for (int64_t id = ids.size; std::ssize(file_ids) < rows; ++id) file_ids.push_back(static_cast<int32_t>(id));
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
