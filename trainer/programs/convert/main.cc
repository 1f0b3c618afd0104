#include "trainer/programs/convert/main.h"

#include <fmt/format.h>

#include <cstdio>
#include <cxxopts.hpp>
#include <exception>

#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/base/print_message.h"
#include "engine/base/process.h"
#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/convert.h"

namespace mtf {
namespace {

/// {language_models}: their names.
constexpr std::string_view kHelp =
    R"(mtf-convert: weights from one format into another.

usage: mtf-convert FROM TO [--to FORMAT] [option...]

FROM is the directory of a run (run.model_dir) or of a checkpoint, a .safetensors file, or a model in Hugging
Face form (config.json and model.safetensors): T5 (Flan, mT5, ByT5), BERT, RoBERTa, XLM-RoBERTa, CamemBERT,
DistilBERT, ModernBERT, Marian (OPUS-MT), BART, mBART, M2M100, NLLB, ViT, DINOv2, ResNet, ConvNeXt, or one of
{language_models}

  mtf-convert t5-small models/t5-small                    imports a T5; then:
      mtf-train models/t5-small/config.yaml data.train.inputs=a.txt data.train.targets=b.txt run.model_dir=runs/t5
  mtf-convert runs/t5 t5-mine --to hf-t5                  exports it: T5ForConditionalGeneration.from_pretrained
  mtf-convert SmolLM2-135M models/smol                    imports a language model with its tokeniser; then:
      mtf-train models/smol/config.yaml data.train.path=texts.txt run.model_dir=runs/smol
  mtf-convert runs/ende ende.safetensors                  one file, variables under their own names
  mtf-convert ende.safetensors models/ende                and back: mtf-train models/ende/config.yaml ...

  --to FORMAT       default: safetensors for a TO that ends so, else model, which FROM must not be
      model         directory with config.yaml, checkpoints/step-N and vocabulary
      safetensors   one file; it has the configuration in its metadata
      hf-t5         directory with config.json, model.safetensors and the files of the tokeniser, for models
                    that are a T5 (relative positions, gated units or relu, RMS norm, one embedding)
      hf-bert       likewise, for encoders: BERT (learned positions, biases, norm after each layer), RoBERTa and
                    XLM-RoBERTa (positions with a `first_position`), DistilBERT (without token_types), ModernBERT
                    (rotary positions, norms before the layers, no biases)
      hf-marian     likewise, for translation models that are a Marian (sinusoid_hf, biases, norm after each layer)
      hf-bart       likewise: BART (learned positions, norms of the embedding and after each layer), mBART (norms
                    before the layers), M2M100 and NLLB (sinusoid, norms before the layers)
      hf-lm         likewise, for language models with the layers of one of those above; what each of them
                    has says docs/weights.md
      hf-vit        likewise, for classifiers of images that are a ViT (patches, class token, layer_norm, biases);
                    hf-dinov2, hf-resnet and hf-convnext: a DINOv2, ResNet or ConvNeXt
  --step N          the checkpoint of step N of a run; default: the newest
  --raw             weights as they were trained; else, with train.ema_decay, their running means
  --all             the state of the training too, so that it can go on; model and safetensors only
  --config FILE     configuration of a .safetensors file that has none
  --force           replaces TO

What is written appears whole or not at all. Values do not change: an import that is exported again gives the
same tensors, but for the fused ones of a Phi-3, two rows that no OPT reads, the pooler that no RoBERTa reads and
roundings of a Gemma's scales in float32. An import makes float32 of bfloat16 and float16, and refuses float64.

Exit codes: 0 done, 1 failed, 2 wrong usage.
)";

/// The names of all language models, in lines as long as those of the help.
std::string language_models() {
  constexpr size_t width = 110;
  std::string text, line;
  for (const CausalLmModel& model : causal_lm_models()) {
    const bool is_last = &model == &causal_lm_models().back();
    const std::string name = fmt::format("{}{}", model.title, is_last ? "." : ",");
    if (line.size() + 1 + name.size() > width) {
      text += line + "\n";
      line.clear();
    }
    line += line.empty() ? name : " " + name;
  }
  return text + line;
}

[[noreturn]] void wrong_usage(const std::string& message, const std::string& hint) {
  throw Error(ErrorKind::kUsage, message, hint);
}

WeightFormat parse_format(const std::string& text) {
  std::vector<std::string> words;
  for (const config::EnumName& word : enum_names(WeightFormat{})) {
    if (word.name == text) return static_cast<WeightFormat>(word.value);
    words.push_back(word.name);
  }
  wrong_usage(fmt::format("--to: unknown format `{}`", text), did_you_mean(text, words));
}

int64_t parse_step(const std::string& text) {
  const auto step = parse_number<int64_t>(text);
  if (!step || *step < 0)
    wrong_usage(fmt::format("--step: `{}` is not a whole number from 0", text), "for example `--step 12000`");
  return *step;
}

cxxopts::ParseResult parse_words(const std::vector<std::string>& words) {
  cxxopts::Options parser("mtf-convert");
  const auto text = [] { return cxxopts::value<std::string>(); };
  parser.add_options()("h,help", "")("to", "", text())("step", "", text())("config", "", text());
  parser.add_options()("raw", "")("all", "")("f,force", "");
  parser.add_options()("paths", "", cxxopts::value<std::vector<std::string>>());
  parser.parse_positional({"paths"});
  std::vector<const char*> arguments{"mtf-convert"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  try {
    return parser.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const cxxopts::exceptions::exception& error) {
    wrong_usage(error.what(), "`mtf-convert --help` explains");
  }
}

/// Parses the command line; nullopt if help is requested.
std::optional<ConvertOptions> parse(const std::vector<std::string>& words) {
  const cxxopts::ParseResult parsed = parse_words(words);
  if (parsed["help"].as<bool>()) return std::nullopt;
  std::vector<std::string> paths;
  if (parsed.count("paths") > 0) paths = parsed["paths"].as<std::vector<std::string>>();
  if (paths.size() != 2 || paths[0].empty() || paths[1].empty())
    wrong_usage(fmt::format("{} paths in place of two", paths.size()),
                "`mtf-convert FROM TO`; `mtf-convert --help` explains");
  ConvertOptions options{.from = paths[0], .to = paths[1]};
  if (parsed.count("to") > 0) options.format = parse_format(parsed["to"].as<std::string>());
  if (parsed.count("step") > 0) options.step = parse_step(parsed["step"].as<std::string>());
  if (parsed.count("config") > 0) options.config = parsed["config"].as<std::string>();
  options.raw = parsed["raw"].as<bool>();
  options.all = parsed["all"].as<bool>();
  options.force = parsed["force"].as<bool>();
  return options;
}

}  // namespace

int convert_main(const std::vector<std::string>& words) {
  prepare_process();
  try {
    const std::optional<ConvertOptions> options = parse(words);
    if (!options) {
      const std::string help = fmt::format(kHelp, fmt::arg("language_models", language_models()));
      std::fputs(help.c_str(), stdout);
      check_standard_output();
      return 0;
    }
    for (const std::string& line : convert(*options)) print_message("{}\n", line);
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "mtf-convert");
  }
}

}  // namespace mtf
