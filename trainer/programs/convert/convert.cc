#include "trainer/programs/convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "engine/base/nearest.h"
#include "trainer/programs/convert/bart.h"
#include "trainer/programs/convert/bart_config.h"
#include "trainer/programs/convert/bert.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/causal_lm.h"
#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/convnext.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/merge_lora.h"
#include "trainer/programs/convert/resnet.h"
#include "trainer/programs/convert/t5.h"
#include "trainer/programs/convert/vit.h"
#include "trainer/programs/convert/weights.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".safetensors";

std::string name_of(WeightFormat format) {
  for (const config::EnumName& name : enum_names(format)) {
    if (static_cast<WeightFormat>(name.value) == format) return name.name;
  }
  return {};
}

/// How a format of Hugging Face is read and written.
struct HuggingFaceFormat {
  WeightFormat format;
  std::vector<std::string_view> model_types;  ///< in config.json
  HuggingFaceImport (*import_model)(const std::string& from, const ImportTarget& target);
  std::vector<std::string> (*export_model)(const ModelWeights& model, const std::string& from,
                                           const std::string& directory);
  /// The model types for which import_model says what can be converted in their place.
  std::vector<std::string_view> refused_types = {};
};
const std::vector<HuggingFaceFormat>& hugging_face_formats() {
  static const std::vector<HuggingFaceFormat> formats = {
      {WeightFormat::kHuggingFaceT5, {"t5", "mt5"}, import_t5, export_t5},
      {WeightFormat::kHuggingFaceBert, bert_types(), import_bert, export_bert},
      {WeightFormat::kHuggingFaceMarian, {form_of(BartKind::kMarian).model_type}, import_bart, export_marian},
      {WeightFormat::kHuggingFaceBart, bart_types(), import_bart, export_bart},
      {WeightFormat::kHuggingFaceLm, causal_lm_types(), import_causal_lm, export_causal_lm},
      {WeightFormat::kHuggingFaceVit, {"vit"}, import_vit, export_vit, {"deit"}},
      {WeightFormat::kHuggingFaceDinov2, {"dinov2", "dinov2_with_registers"}, import_dinov2, export_dinov2},
      {WeightFormat::kHuggingFaceResNet, {"resnet"}, import_resnet, export_resnet},
      {WeightFormat::kHuggingFaceConvNext, {"convnext"}, import_convnext, export_convnext}};
  return formats;
}

/// Returns null for another format.
const HuggingFaceFormat* hugging_face(WeightFormat format) {
  const auto found = std::ranges::find(hugging_face_formats(), format, &HuggingFaceFormat::format);
  return found == hugging_face_formats().end() ? nullptr : &*found;
}

/// Returns the format of the model that config.json describes. Throws Error (kCheckpoint) for a model of none of them.
WeightFormat hugging_face_format(const std::string& directory) {
  const std::string file = directory + "/config.json";
  const HuggingFaceJson json(read_text_file(file), file);
  const std::string type = json.text("model_type", "none");
  std::vector<std::string_view> all;
  for (const HuggingFaceFormat& format : hugging_face_formats()) {
    for (const auto& types : {format.model_types, format.refused_types})
      if (std::ranges::find(types, type) != types.end()) return format.format;
    std::ranges::copy(format.model_types, std::back_inserter(all));
  }
  json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
            fmt::format("one of {}", fmt::join(all, ", ")));
}

WeightFormat format_of_source(const std::string& path) {
  const fs::path from(path);
  std::error_code ignored;
  if (fs::is_regular_file(from, ignored)) return WeightFormat::kSafetensors;
  if (fs::exists(from / "config.json", ignored)) return hugging_face_format(path);
  if (fs::exists(from / "checkpoints", ignored) || fs::exists(from / "manifest.json", ignored))
    return WeightFormat::kModel;
  if (!fs::exists(from, ignored))
    throw Error(ErrorKind::kCheckpoint, "there is no " + path, did_you_mean_file(path));
  throw Error(ErrorKind::kCheckpoint, path + " holds no weights",
              "the directory of a run or a checkpoint, one with config.json and model.safetensors, or a "
              ".safetensors file");
}

WeightFormat format_of_target(const ConvertOptions& options, WeightFormat from) {
  const bool is_file = options.to.ends_with(kSuffix);
  if (!options.format) {
    if (is_file) return WeightFormat::kSafetensors;
    if (from != WeightFormat::kModel) return WeightFormat::kModel;
    std::string formats;
    for (const config::EnumName& format : enum_names(WeightFormat{}))
      if (static_cast<WeightFormat>(format.value) != WeightFormat::kSafetensors)
        formats += fmt::format("`--to {}`, ", format.name);
    throw Error(ErrorKind::kUsage, fmt::format("which format is {} to have?", options.to),
                formats + "or a name that ends in .safetensors");
  }
  if (is_file != (*options.format == WeightFormat::kSafetensors)) {
    throw Error(ErrorKind::kUsage,
                is_file ? fmt::format("{} is the name of a file, and --to {} makes a directory", options.to,
                                      name_of(*options.format))
                        : fmt::format("--to safetensors: {} does not end in {}", options.to, kSuffix));
  }
  return *options.format;
}

/// Throws Error (kUsage) for options that do not apply to the formats.
void check(const ConvertOptions& options, WeightFormat from, WeightFormat to) {
  const auto needs = [&](bool given, bool fits, const char* option, const char* what) {
    if (given && !fits)
      throw Error(ErrorKind::kUsage, fmt::format("{}: {} is {}", option, options.from, what));
  };
  const bool run = from == WeightFormat::kModel;
  needs(options.step.has_value(), run, "--step", "no directory of a run");
  needs(options.raw, run, "--raw", "no directory of a run");
  needs(options.all, run, "--all", "no directory of a run");
  needs(!options.config.empty(), from == WeightFormat::kSafetensors, "--config", "no .safetensors file");
  if (options.all && hugging_face(to))
    throw Error(ErrorKind::kUsage,
                fmt::format("--all: the state of a training has no place in {}", name_of(to)));
  std::error_code ignored;
  if (fs::equivalent(options.from, options.to, ignored))
    throw Error(ErrorKind::kUsage, fmt::format("{} is both what is read and what is written", options.from));
}

struct Read {
  ModelWeights model;
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;
};

Read read(const ConvertOptions& options, WeightFormat from, WeightFormat to) {
  if (from == WeightFormat::kModel)
    return {read_checkpoint_weights(options.from, {options.step, options.all, options.raw}), {}, {}};
  if (from == WeightFormat::kSafetensors) return {read_weights_file(options.from, options.config), {}, {}};
  // An export to Hugging Face's form takes the files of the vocabulary from the source.
  const fs::path place = fs::absolute(hugging_face(to) ? options.from : options.to);
  // Removes a trailing slash, since file names are appended with one.
  const ImportTarget target{(place / "").lexically_normal().parent_path().string(),
                            to == WeightFormat::kSafetensors};
  HuggingFaceImport import = hugging_face(from)->import_model(options.from, target);
  return {std::move(import.model), std::move(import.files), std::move(import.notes)};
}

/// Returns notes on vocabularies that a file of weights lacks: those that the run has trained are in the run's directory, and
/// the files of others may be gone.
std::vector<std::string> missing_vocabularies(const ModelWeights& model, const std::string& to) {
  const Config config = ConfigText(model.config, to).load();
  if (!config.data.vocabulary) return {};
  const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
  std::set<std::string> notes;
  for (const Side side : kSides) {
    LanguageVocabulary language = languages[side];
    if (language->is_trained()) {
      notes.insert(fmt::format("{} has no vocabulary, which texts need: copy the one of the run to {}", to,
                               trained_vocabulary_path(*config.data.vocabulary, side, to)));
      continue;
    }
    for (const config::Path* file : language->files()) {
      if (!fs::exists(file->text))
        notes.insert(
            fmt::format("{} has no vocabulary, which texts need: there is no file {}", to, file->text));
    }
  }
  return {notes.begin(), notes.end()};
}

void write(const ConvertOptions& options, WeightFormat from, WeightFormat to, Read& read) {
  if (to != WeightFormat::kSafetensors && read.model.config.empty())
    throw Error(ErrorKind::kCheckpoint,
                options.from + " lies in no run, so it is not known which model it is of");
  if (to == WeightFormat::kSafetensors) return write_weights_file(read.model, options.to);
  NewDirectory directory(options.to, options.force);
  if (to == WeightFormat::kModel) {
    write_model_directory(read.model, directory.path());
    if (from == WeightFormat::kSafetensors)
      std::ranges::move(missing_vocabularies(read.model, options.to), std::back_inserter(read.notes));
    for (const auto& [name, bytes] : read.files) write_text_file(directory.path() + "/" + name, bytes);
  } else {
    keep_weights(read.model);
    merge_lora(read.model, ConfigText(read.model.config, options.from).load().model, options.from);
    for (std::string& note : hugging_face(to)->export_model(read.model, options.from, directory.path()))
      read.notes.push_back(std::move(note));
  }
  directory.publish();
}

}  // namespace

std::vector<std::string> convert(const ConvertOptions& options) {
  const WeightFormat from = format_of_source(options.from), to = format_of_target(options, from);
  check(options, from, to);
  if (to == WeightFormat::kSafetensors) check_new_file(options.to, options.force);
  Read read = mtf::read(options, from, to);
  write(options, from, to, read);
  int64_t numbers = 0;
  for (const ModelWeight& weight : read.model.weights) numbers += weight.value.shape.size();
  std::vector<std::string> lines = std::move(read.notes);
  lines.push_back(fmt::format("{}: {} variables with {} numbers, from {} as {}", options.to,
                              read.model.weights.size(), with_thousands(static_cast<double>(numbers)),
                              name_of(from), name_of(to)));
  return lines;
}

}  // namespace mtf
