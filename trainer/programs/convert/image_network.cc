#include "trainer/programs/convert/image_network.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "trainer/programs/convert/config_text.h"

namespace mtf {

void check_image_classifier(const HuggingFaceJson& json, int64_t channels) {
  json.require("problem_type", "single_label_classification", "each image has one class");
  if (channels != 1 && channels != 3)
    json.fail(fmt::format("`num_channels` is {}, which cannot be converted", channels),
              "1 (grey) or 3 (red, green, blue)");
}

int64_t label_count(const HuggingFaceJson& json, int64_t otherwise) {
  return json.has("id2label") ? std::ssize(json.at("id2label")) : otherwise;
}

int64_t label_rows(const StoredTensor& kernel, const std::string& from) {
  const int64_t rows = kernel.shape.empty() ? 0 : kernel.shape[0];
  if (rows >= 2) return rows;
  throw Error(
      ErrorKind::kCheckpoint,
      fmt::format("{}: tensor `{}` has {} rows, and a classifier at least two", from, kernel.name, rows),
      "a model of classes: one number for an image is a regression");
}

std::optional<std::vector<int64_t>> sizes_of(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  std::vector<int64_t> sizes;
  for (const nlohmann::json& size : given.is_array() ? given : nlohmann::json::array()) {
    if (size.is_number_unsigned() && size > 0) sizes.push_back(size.get<int64_t>());
  }
  if (sizes.empty() || sizes.size() != given.size())
    json.fail(fmt::format("`{}` is {}, no list of sizes", key, given.dump()));
  return sizes;
}

std::string image_init(const std::string& path, bool without_head) {
  return fmt::format("{{path: {}{}}}", quoted(path), without_head ? ", exclude: [^logits/]" : "");
}

void note_new_head(const std::vector<std::string>& missing, const std::string& from,
                   std::vector<std::string>& notes) {
  if (missing.empty()) return;
  notes.push_back(fmt::format("{} has an encoder alone; a run that starts from it trains anew: {}", from,
                              fmt::join(missing, ", ")));
}

}  // namespace mtf
