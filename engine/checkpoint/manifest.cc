#include "engine/checkpoint/manifest.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/checkpoint_writer.h"

namespace mtf {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const CheckpointFileInfo& file) {
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"header_bytes", file.header_bytes},
          {"header_xxh128", file.header_xxh128}};
}

OrderedJson to_json(const CheckpointBlock& block) {
  return {{"file", block.file},   {"offset", block.offset}, {"bytes", block.bytes},
          {"begin", block.begin}, {"size", block.size},     {"xxh128", block.xxh128}};
}

OrderedJson to_json(const CheckpointVariable& variable) {
  OrderedJson shape = OrderedJson::array(), blocks = OrderedJson::array();
  for (const Dimension& dimension : variable.shape) shape.push_back({dimension.name, dimension.size});
  for (const CheckpointBlock& block : variable.blocks) blocks.push_back(to_json(block));
  return {{"name", variable.name},
          {"dtype", name_of(variable.dtype)},
          {"shape", std::move(shape)},
          {"blocks", std::move(blocks)}};
}

OrderedJson to_json(const std::map<std::string, double>& numbers) {
  for (const auto& [name, number] : numbers)
    MTF_CHECK(std::isfinite(number), "`{}` in a manifest is {}", name, number);
  return OrderedJson(numbers);
}

/// Returns a JSON list with one line for each entry.
template <class T>
std::string lines_of(const std::vector<T>& entries) {
  std::string text = "[";
  for (const T& entry : entries)
    text += (text.size() == 1 ? "\n    " : ",\n    ") + json_text(to_json(entry));
  return text + (entries.empty() ? "]" : "\n  ]");
}

/// Returns the end of a manifest: the hash of the `text` before it.
std::string closing(std::string_view text) {
  return fmt::format("  \"xxh128\": \"{}\"\n}}\n", hash128_hex(text));
}

bool is_hash(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// A JSON object with known keys: it must have each of them, and no others.
class Fields {
 public:
  /// `place` precedes messages: empty, or for example "variable `x`: ".
  Fields(const Json& json, const std::string& path, std::string place,
         std::initializer_list<const char*> keys, std::initializer_list<const char*> optional_keys = {})
      : json_(json), path_(path), place_(std::move(place)) {
    if (!json.is_object()) fail("is no JSON object");
    for (const char* key : keys)
      if (!json.contains(key)) fail(fmt::format("has no `{}`", key));
    for (const auto& [key, value] : json.items())
      if (std::ranges::find(keys, std::string_view(key)) == keys.end() &&
          std::ranges::find(optional_keys, std::string_view(key)) == optional_keys.end())
        fail(fmt::format("has the unknown key `{}`", key));
  }

  [[noreturn]] void fail(const std::string& what) const { throw_damaged(path_, place_ + what); }

  const Json& operator[](const char* key) const { return json_[key]; }
  uint64_t number(const char* key) const {
    if (!json_[key].is_number_unsigned()) fail(fmt::format("`{}` is no whole number", key));
    return json_[key].get<uint64_t>();
  }
  int64_t size(const char* key) const { return as_size(json_[key], key); }
  std::string text(const char* key) const {
    if (!json_[key].is_string()) fail(fmt::format("`{}` is no text", key));
    return json_[key].get<std::string>();
  }
  std::string hash(const char* key) const {
    std::string hash = text(key);
    if (!is_hash(hash)) fail(fmt::format("`{}` is no hash", key));
    return hash;
  }
  const Json& list(const char* key) const {
    if (!json_[key].is_array()) fail(fmt::format("`{}` is no list", key));
    return json_[key];
  }
  std::vector<int64_t> sizes(const char* key) const {
    std::vector<int64_t> values;
    for (const Json& value : list(key)) values.push_back(as_size(value, key));
    return values;
  }
  std::map<std::string, int64_t> sizes_by_name(const char* key) const {
    std::map<std::string, int64_t> values;
    for (const auto& [name, value] : map(key).items()) values.emplace(name, as_size(value, key));
    return values;
  }
  std::map<std::string, double> numbers_by_name(const char* key) const {
    std::map<std::string, double> values;
    for (const auto& [name, value] : map(key).items()) {
      if (!value.is_number()) fail(fmt::format("`{}` of `{}` is no number", name, key));
      values.emplace(name, value.get<double>());
    }
    return values;
  }
  std::map<std::string, std::string> texts_by_name(const char* key) const {
    std::map<std::string, std::string> values;
    for (const auto& [name, value] : map(key).items()) {
      if (!value.is_string()) fail(fmt::format("`{}` of `{}` is no text", name, key));
      values.emplace(name, value.get<std::string>());
    }
    return values;
  }

 private:
  int64_t as_size(const Json& json, const char* key) const {
    if (!json.is_number_unsigned() ||
        json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail(fmt::format("`{}` holds something else than whole numbers of at least 0", key));
    return json.get<int64_t>();
  }
  const Json& map(const char* key) const {
    if (!json_[key].is_object()) fail(fmt::format("`{}` is no JSON object", key));
    return json_[key];
  }

  const Json& json_;
  const std::string& path_;
  std::string place_;
};

/// Returns "variable `x`: ", or "variable 3: " if it has no name.
std::string place_of(const char* kind, const Json& json, size_t index) {
  if (json.is_object() && json.contains("name") && json["name"].is_string())
    return fmt::format("{} `{}`: ", kind, json["name"].get<std::string>());
  return fmt::format("{} {}: ", kind, index);
}

CheckpointFileInfo parse_file(const Json& json, const std::string& path, size_t index) {
  const Fields fields(json, path, place_of("file", json, index),
                      {"name", "bytes", "header_bytes", "header_xxh128"});
  return {.name = fields.text("name"),
          .bytes = fields.size("bytes"),
          .header_bytes = fields.size("header_bytes"),
          .header_xxh128 = fields.hash("header_xxh128")};
}

CheckpointBlock parse_block(const Json& json, const std::string& path, const std::string& place) {
  const Fields fields(json, path, place, {"file", "offset", "bytes", "begin", "size", "xxh128"});
  return {.file = fields.text("file"),
          .offset = fields.size("offset"),
          .bytes = fields.size("bytes"),
          .begin = fields.sizes("begin"),
          .size = fields.sizes("size"),
          .xxh128 = fields.hash("xxh128")};
}

/// Parses [["d_model", 512], ...].
Shape parse_shape(const Fields& fields) {
  const Json& list = fields.list("shape");
  if (list.size() > most_dimensions) fields.fail(fmt::format("`shape` has {} dimensions", list.size()));
  std::vector<Dimension> dimensions;
  std::set<std::string> names;
  for (const Json& json : list) {
    if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_number_unsigned() ||
        json[1].get<uint64_t>() < 1 ||
        json[1].get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fields.fail("`shape` is no list of [name, size]");
    dimensions.push_back({json[0].get<std::string>(), json[1].get<int64_t>()});
    if (!names.insert(dimensions.back().name).second)
      fields.fail(fmt::format("`shape` has the dimension `{}` twice", dimensions.back().name));
  }
  return Shape(std::move(dimensions));
}

CheckpointVariable parse_variable(const Json& json, const std::string& path, size_t index) {
  const std::string place = place_of("variable", json, index);
  const Fields fields(json, path, place, {"name", "dtype", "shape", "blocks"});
  CheckpointVariable variable;
  variable.name = fields.text("name");
  const std::optional<DType> dtype = parse_dtype(fields.text("dtype"));
  if (!dtype) fields.fail(fmt::format("`dtype` is the unknown `{}`", fields.text("dtype")));
  variable.dtype = *dtype;
  variable.shape = parse_shape(fields);
  for (const Json& block : fields.list("blocks"))
    variable.blocks.push_back(parse_block(block, path, place + "a block "));
  return variable;
}

Json parse_text(const std::string& text, const std::string& path) {
  try {
    return parse_json(text, [&](const std::string& key) {
      throw_damaged(path, fmt::format("`{}` occurs twice in a JSON object", key));
    });
  } catch (const Json::exception& error) {
    throw_damaged(path, fmt::format("it is no valid JSON ({})", message_of(error)));
  }
}

/// Checks that the text ends with the hash of everything before it.
void check_hash(const std::string& text, const std::string& path) {
  static const size_t length = closing("").size();
  const std::string_view whole = text, body = whole.substr(0, whole.size() - std::min(whole.size(), length));
  const std::string_view end = whole.substr(body.size());
  if (end == closing(body)) return;
  const bool complete = end.starts_with("  \"xxh128\": \"") && end.ends_with("\"\n}\n");
  throw_damaged(path, complete ? "it does not have the checksum that it ends with"
                               : "it does not end with its checksum");
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08d}", step); }

std::string to_json(const Manifest& manifest) {
  std::string text = "{\n";
  const auto add = [&](const char* key, const std::string& value) {
    text += fmt::format("  \"{}\": {},\n", key, value);
  };
  add("format", json_text(Manifest::kFormat));
  add("step", json_text(manifest.step));
  add("seed", json_text(manifest.seed));
  add("config_hash", json_text(manifest.config_hash));
  if (!manifest.config.empty()) add("config", json_text(manifest.config));
  add("next_rows", json_text(manifest.next_rows));
  add("instruction_set", json_text(manifest.instruction_set));
  add("mesh", json_text(manifest.mesh));
  add("state", json_text(to_json(manifest.state)));
  add("metrics", json_text(to_json(manifest.metrics)));
  if (!manifest.vocabularies.empty()) add("vocabularies", json_text(manifest.vocabularies));
  add("files", lines_of(manifest.files));
  add("variables", lines_of(manifest.variables));
  return text + closing(text);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  check_hash(text, path);
  const Json json = parse_text(text, path);
  if (json.is_object() && json.contains("format") && json["format"].is_number() &&
      json["format"] != Manifest::kFormat)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: its format is {}", path, json["format"].dump()),
                fmt::format("this program reads format {}", Manifest::kFormat));
  const Fields fields(json, path, "",
                      {"format", "step", "seed", "config_hash", "next_rows", "instruction_set", "mesh",
                       "state", "metrics", "files", "variables", "xxh128"},
                      {"config", "vocabularies"});
  fields.size("format");
  Manifest manifest;
  manifest.step = fields.size("step");
  manifest.seed = fields.number("seed");
  manifest.config_hash = fields.text("config_hash");
  if (json.contains("config")) manifest.config = fields.text("config");
  if (!manifest.config.empty() && hash128_hex(manifest.config) != manifest.config_hash)
    fields.fail("`config` does not have the hash `config_hash`");
  manifest.next_rows = fields.sizes_by_name("next_rows");
  manifest.instruction_set = fields.text("instruction_set");
  manifest.mesh = fields.text("mesh");
  manifest.state = fields.numbers_by_name("state");
  manifest.metrics = fields.numbers_by_name("metrics");
  if (json.contains("vocabularies")) manifest.vocabularies = fields.texts_by_name("vocabularies");
  for (const Json& file : fields.list("files"))
    manifest.files.push_back(parse_file(file, path, manifest.files.size()));
  for (const Json& variable : fields.list("variables"))
    manifest.variables.push_back(parse_variable(variable, path, manifest.variables.size()));
  if (const std::string problem = problem_of_blocks(manifest); !problem.empty()) throw_damaged(path, problem);
  return manifest;
}

std::string to_json(const WrittenPart& part) {
  return fmt::format("{{\"writer\": {},\n  \"files\": {},\n  \"variables\": {}}}\n", json_text(part.writer),
                     lines_of(part.files), lines_of(part.variables));
}

WrittenPart parse_part(const std::string& text) {
  const std::string path = "a part of a checkpoint";
  const Json json = parse_text(text, path);
  const Fields fields(json, path, "", {"writer", "files", "variables"});
  WrittenPart part{.writer = fields.text("writer"), .files = {}, .variables = {}};
  for (const Json& file : fields.list("files"))
    part.files.push_back(parse_file(file, path, part.files.size()));
  for (const Json& variable : fields.list("variables"))
    part.variables.push_back(parse_variable(variable, path, part.variables.size()));
  return part;
}

Manifest read_manifest(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, Manifest::kFile);
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (status.type() == std::filesystem::file_type::not_found) throw_damaged(path, "it is missing");
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return parse_manifest(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), file.path());
}

}  // namespace mtf
