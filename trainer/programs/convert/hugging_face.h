// What models in Hugging Face format share: a directory with config.json and model.safetensors (or several files, with
// model.safetensors.index.json), in which the matrices of projections are stored transposed, [output, input].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/json.h"
#include "engine/graph/variable.h"
#include "engine/safetensors/safetensors.h"
#include "layers/activation.h"
#include "trainer/programs/convert/weights.h"

namespace mtf {

/// What a model's directory says of its tokeniser.
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";

/// The tensor of a Hugging Face file that holds a variable of a model.
struct HuggingFaceTensor {
  std::string name;
  bool transposed = false;
  double factor = 1;  ///< the file has the variable times this
};

/// Where an imported model will be.
struct ImportTarget {
  std::string path;      ///< absolute path of a directory or of a .safetensors file
  bool is_file = false;  ///< of a .safetensors file, beside which no other files are written
};

struct HuggingFaceImport {
  ModelWeights model;
  /// The names and contents of further files for the model's directory; none where the target is a file.
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;  ///< readable lines on the import
};

/// The values of config.yaml besides the model.
struct ModelSurroundings {
  std::string vocabulary;  ///< the value of `data.vocabulary`
  ImportTarget target;     ///< what will hold the model
  std::string source;      ///< origin of the model
  std::string infer = {};  ///< keys of `infer`; none: there is no such section
};

/// Returns the line of config.yaml with the section `infer`, or nothing.
std::string infer_line(const ModelSurroundings& around);
/// Returns the lines of config.yaml that say how training goes on; `data` are the arguments for its files.
std::string usage_comment(const ModelSurroundings& around, std::string_view data);

/// Returns the path of the vocabulary's file `name` for the configuration of an imported model: a copy in the directory of
/// the target, or where the target is a file that of the source `from`. Copy and notes are added to `import`, also where the
/// source has no such file.
std::string vocabulary_path(const std::string& from, const std::string& name, const ImportTarget& target,
                            HuggingFaceImport& import);

/// Typed access to the keys of config.json. `path` names the text in messages. Each function throws Error (kCheckpoint).
class HuggingFaceJson {
 public:
  HuggingFaceJson(const std::string& text, const std::string& path);

  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const;
  /// Return the value of a key, or `otherwise` where it is absent or null. Sizes are at least `least`, numbers in [0, 1),
  /// positive ones above 0.
  int64_t size(const char* key, int64_t otherwise, int64_t least = 1) const;
  double number(const char* key, double otherwise) const;
  double positive(const char* key, double otherwise) const;
  /// The values of an object; empty where the key is absent or null.
  HuggingFaceJson object(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  /// Throws Error if `key` is given with another value.
  void require(const char* key, const nlohmann::json& value, const char* why) const;
  /// Returns the first part of the key's version number: 4 for "4.57.6"; `otherwise` where there is none.
  int64_t major_version(const char* key, int64_t otherwise) const;
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  bool has_null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
  const nlohmann::json& at(const char* key) const { return json_[key]; }
  const nlohmann::json& all() const { return json_; }

 private:
  std::string path_;
  nlohmann::json json_;
};

/// Returns the id that a key says, one of `ids`; nullopt where it is absent or null. Of a list the first id counts, as of
/// `eos_token_id`, since one token ends texts here. Throws Error (kCheckpoint) for an empty list
/// and for what is no id.
std::optional<int32_t> parse_token_id(const HuggingFaceJson& json, const char* key, int64_t ids);

/// Returns what tokenizer_config.json says; nothing where there is none.
HuggingFaceJson tokenizer_config_of(const std::string& directory);

/// Returns the activation that a key names. Throws Error (kCheckpoint) for one that no layer has.
Activation parse_activation(const HuggingFaceJson& json, const char* key, const std::string& otherwise);
/// Returns the name of an activation in config.json; empty if it has none.
std::string_view activation_name(Activation activation);

/// Returns the names of `id2label` in the order of their numbers; none where all are the usual ones, LABEL_0, LABEL_1, ...
std::vector<std::string> parse_label_names(const HuggingFaceJson& json);
/// Returns `names` if each of `count` labels has its own; none, with a note, where a name occurs twice or is empty. `rows_of` is
/// the tensor with a row for each label. Throws Error (kCheckpoint) if they are more or fewer.
std::vector<std::string> settled_label_names(std::vector<std::string> names, int64_t count,
                                             const std::string& rows_of, const std::string& config_file,
                                             std::vector<std::string>& notes);
/// Adds id2label and label2id to config.json; labels without a name have the usual one.
void add_label_names(const std::vector<std::string>& names, int64_t count, nlohmann::ordered_json& json);

/// The tensors of a directory, in one or several files.
class HuggingFaceFiles {
 public:
  /// Throws Error (kCheckpoint).
  explicit HuggingFaceFiles(const std::string& directory);

  /// Returns null if there is no such tensor.
  const StoredTensor* find(const std::string& name) const;
  /// Throws Error (kCheckpoint) if there is no such tensor.
  const StoredTensor& at(const std::string& name) const;
  std::vector<std::string> names() const;
  /// Throws Error (kCheckpoint) for tensors that are neither in `used` nor `ignored`; `model` names the kind of model.
  void check_unused(const std::set<std::string>& used,
                    const std::function<bool(const std::string& name)>& ignored,
                    std::string_view model) const;

 private:
  void add(const std::string& name);

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*> tensors_;
};

/// True if both have the same shape and the same bytes.
bool are_equal(const StoredTensor& a, const StoredTensor& b);

/// Returns the parts of a variable's name, "encoder/block_000/.." -> "encoder", "block_000", ..
std::vector<std::string> parts_of(const std::string& variable);
/// Returns 7 for "block_007"; nullopt for another word.
std::optional<int> number_of(const std::string& part, const std::string& word);

/// Throws Error (kCheckpoint) unless the tensor of a file in `from` has this shape and a type that float32 holds.
void check_stored(const StoredTensor& stored, const std::vector<int64_t>& shape, const std::string& from);

/// Returns the value of a variable from the tensor of a file in `from`. Throws Error (kCheckpoint) for another shape or type.
HostTensor value_of(const Variable& variable, const StoredTensor& stored, bool transposed,
                    const std::string& from);

/// Combines heads, query_heads and d_kv into one dimension. The elements keep their order.
Shape with_heads_together(const Shape& shape);

/// Throws Error (kCheckpoint) unless the weights are exactly the variables of `config`, a text, but for those that `is_absent`
/// says: the configuration of a run may have been changed, and a file may have lost some weights. `from` names the model.
void check_weights(
    const ModelWeights& model, const std::string& config, const std::string& from,
    const std::function<bool(const std::string& variable)>& is_absent = [](const std::string&) {
      return false;
    });

/// A tensor of a file that is being written.
struct WrittenTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> value;
};

/// Returns the tensor of a weight.
WrittenTensor written_tensor(const ModelWeight& weight, const HuggingFaceTensor& theirs);
/// Writes directory/model.safetensors; the `counters` are int64 numbers that are 0.
void write_tensors(const std::vector<WrittenTensor>& tensors, const std::string& directory,
                   const std::vector<std::string>& counters = {});

/// Writes directory/model.safetensors with the tensors that `name_of` says. Throws Error (kCheckpoint) for a variable that it
/// does not know; `from` names the model in messages and `kind` its kind.
void write_tensors(
    const ModelWeights& model,
    const std::function<std::optional<HuggingFaceTensor>(const std::string& variable)>& name_of,
    const std::string& from, std::string_view kind, const std::string& directory);

}  // namespace mtf
