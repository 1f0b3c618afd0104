#include "trainer/programs/convert/tokenizer_ids.h"

#include <fmt/format.h>

#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

TokenizerIds::TokenizerIds(const std::string& path) : TokenizerIds(read_text_file(path), path) {}

TokenizerIds::TokenizerIds(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  const auto add = [&](const nlohmann::json& token, const nlohmann::json& id) {
    if (!token.is_string() || !id.is_number_unsigned() || id > INT32_MAX)
      json.fail(fmt::format("token {} has the id {}", token.dump(), id.dump()), "a text and a number");
    tokens_[id.get<int32_t>()] = token.get<std::string>();
    ids_[token.get<std::string>()] = id.get<int32_t>();
  };
  const nlohmann::json none;
  const nlohmann::json& model = json.has("model") ? json.at("model") : none;
  const nlohmann::json& vocabulary = model.is_object() && model.contains("vocab") ? model["vocab"] : none;
  if (!vocabulary.is_object() && !vocabulary.is_array())
    json.fail("`model` has no `vocab`", "a file that `save_pretrained` of a fast tokeniser writes");
  if (const auto type = model.find("type"); type != model.end() && type->is_string())
    model_type_ = type->get<std::string>();
  if (vocabulary.is_object()) {
    for (const auto& [token, id] : vocabulary.items()) add(token, id);
  } else {  // a unigram model has pairs of tokens and scores
    for (size_t i = 0; i < vocabulary.size(); ++i)
      add(vocabulary[i].is_array() && !vocabulary[i].empty() ? vocabulary[i][0] : vocabulary[i], i);
  }
  if (!json.has("added_tokens")) return;
  for (const nlohmann::json& added : json.at("added_tokens")) {
    if (!added.is_object()) json.fail("`added_tokens` has an entry that is no object");
    add(added.value("content", nlohmann::json()), added.value("id", nlohmann::json()));
    added_.insert(added["id"].get<int32_t>());
  }
}

std::vector<std::string> TokenizerIds::drop_added_from(int64_t size) {
  std::vector<std::string> dropped;
  for (auto id = size > INT32_MAX ? added_.end() : added_.lower_bound(static_cast<int32_t>(size));
       id != added_.end(); id = added_.erase(id)) {
    dropped.push_back(tokens_.at(*id));
    ids_.erase(dropped.back());
    tokens_.erase(*id);
  }
  return dropped;
}

std::optional<std::string> TokenizerIds::token(int64_t id) const {
  const auto found = tokens_.find(static_cast<int32_t>(id));
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> TokenizerIds::id(const std::string& token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace mtf
