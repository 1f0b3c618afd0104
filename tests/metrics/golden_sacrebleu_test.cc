// Compares the scores of 230 segments with those of sacreBLEU 2.6.0.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/metrics/bleu.h"
#include "trainer/metrics/chrf.h"
#include "trainer/metrics/ter.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

using nlohmann::json;

const std::string kCase = std::string(MTF_SOURCE_DIR) + "/tests/golden/11_sacrebleu/";

json read_json(const std::string& name) { return json::parse(std::ifstream(kCase + name)); }

/// Returns the lines of a file unchanged, with white space at their ends.
std::vector<std::string> read_text(const std::string& name) {
  std::ifstream file(kCase + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Reads references; "ref0+ref1" names two.
References read_references(const std::string& names) {
  References references;
  for (size_t at = 0; at < names.size(); at += 5)
    references.push_back(read_text(names.substr(at, 4) + ".txt"));
  return references;
}

References part(const References& references, size_t begin, size_t end) {
  References result;
  for (const auto& reference : references) {
    result.emplace_back(reference.begin() + static_cast<std::ptrdiff_t>(begin),
                        reference.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

/// Removes the version from a signature; it is not compared.
std::string without_version(const std::string& signature) {
  return signature.substr(0, signature.rfind(':'));
}

BleuOptions bleu_options(const json& setting) {
  BleuOptions options;
  options.tokenizer = *bleu_tokenizer_named(setting["tokenize"].get<std::string>());
  options.smoothing = *smoothing_named(setting["smooth_method"].get<std::string>());
  if (!setting["smooth_value"].is_null()) options.smooth_value = setting["smooth_value"].get<double>();
  options.lowercase = setting["lowercase"];
  options.effective_order = setting.value("effective_order", false);
  options.max_order = setting.value("max_ngram_order", 4);
  return options;
}

/// Returns the counts as sacreBLEU stores them: if anything matches, they include what add-k added to all
/// orders except the first.
std::vector<int64_t> as_kept(std::vector<int64_t> counts, const BleuScore& bleu, const BleuOptions& options) {
  if (options.smoothing == BleuSmoothing::kAddK && bleu.matches[0] > 0) {
    for (size_t n = 1; n < counts.size(); ++n)
      counts[n] += static_cast<int64_t>(options.smooth_value.value_or(1));
  }
  return counts;
}

TEST(GoldenSacrebleu, CorpusBleu) {
  const std::vector<std::string> hypotheses = read_text("hyp.txt");
  for (const json& setting : read_json("bleu_corpus.json")) {
    const BleuOptions options = bleu_options(setting);
    const bool all = setting["subset"].is_string();
    const size_t begin = all ? 0 : setting["subset"][0].get<size_t>();
    const size_t end = all ? hypotheses.size() : setting["subset"][1].get<size_t>();
    const References references = part(read_references(setting["refs"]), begin, end);
    const BleuScore bleu =
        corpus_bleu(std::span(hypotheses).subspan(begin, end - begin), references, options);
    SCOPED_TRACE(setting.dump());
    EXPECT_NEAR(bleu.score, setting["score"].get<double>(), 1e-10);
    EXPECT_EQ(fmt::format("BLEU = {:.4f} {}", bleu.score, bleu.details()),
              setting["formatted"].get<std::string>());
    EXPECT_EQ(as_kept(bleu.matches, bleu, options), setting["counts"].get<std::vector<int64_t>>());
    EXPECT_EQ(as_kept(bleu.totals, bleu, options), setting["totals"].get<std::vector<int64_t>>());
    EXPECT_EQ(without_version(signature_of(*make_bleu(options), references.size()).to_string()),
              without_version(setting["signature"]));
  }
}

TEST(GoldenSacrebleu, SentenceBleu) {
  const std::vector<std::string> hypotheses = read_text("hyp.txt");
  for (const json& setting : read_json("bleu_sentence.json")) {
    const BleuOptions options = bleu_options(setting);
    const References references = read_references(setting["refs"]);
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      const json& row = setting["rows"][i];
      const References of_sentence = {{references[0][i]}, {references[1][i]}};
      const BleuScore bleu = corpus_bleu(std::span(hypotheses).subspan(i, 1), of_sentence, options);
      SCOPED_TRACE(fmt::format("{} line {}", setting["signature"].get<std::string>(), i + 1));
      EXPECT_NEAR(bleu.score, row[0].get<double>(), 1e-10);
      EXPECT_NEAR(bleu.brevity_penalty, row[1].get<double>(), 1e-12);
      EXPECT_EQ(bleu.hypothesis_length, row[2].get<int64_t>());
      EXPECT_EQ(bleu.reference_length, row[3].get<int64_t>());
      EXPECT_EQ(as_kept(bleu.matches, bleu, options), row[4].get<std::vector<int64_t>>());
      EXPECT_EQ(as_kept(bleu.totals, bleu, options), row[5].get<std::vector<int64_t>>());
    }
  }
}

TEST(GoldenSacrebleu, Tokens) {
  const std::vector<std::string> lines = read_text("ref0.txt");
  const json by_tokenizer = read_json("tokenized_ref0_first120.json");
  for (const auto& [name, tokenized] : by_tokenizer.items()) {
    for (size_t i = 0; i < tokenized.size(); ++i) {
      const std::string ours = bleu_tokenize(lines[i], *bleu_tokenizer_named(name));
      EXPECT_EQ(collapse_white_space(ours), collapse_white_space(tokenized[i].get<std::string>()))
          << name << " line " << i + 1;
    }
  }
}

TEST(GoldenSacrebleu, Chrf) {
  const std::vector<std::string> hypotheses = read_text("hyp.txt");
  for (const json& setting : read_json("chrf.json")) {
    const json& arguments = setting["args"];
    const ChrfOptions options = {.char_order = arguments.value("char_order", 6),
                                 .word_order = arguments.value("word_order", 0),
                                 .beta = arguments.value("beta", 2),
                                 .lowercase = arguments.value("lowercase", false),
                                 .whitespace = arguments.value("whitespace", false),
                                 .eps_smoothing = arguments.value("eps_smoothing", false)};
    const References references = read_references(setting["refs"]);
    SCOPED_TRACE(setting["signature"].get<std::string>());
    EXPECT_NEAR(corpus_chrf(hypotheses, references, options), setting["score"].get<double>(), 1e-10);
    EXPECT_EQ(without_version(signature_of(*make_chrf(options), references.size()).to_string()),
              without_version(setting["signature"]));
    if (!setting.contains("sentence_scores_ref0")) continue;
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      EXPECT_NEAR(corpus_chrf(std::span(hypotheses).subspan(i, 1), {{references[0][i]}}, options),
                  setting["sentence_scores_ref0"][i].get<double>(), 1e-10)
          << "line " << i + 1;
    }
  }
}

TEST(GoldenSacrebleu, Ter) {
  const std::vector<std::string> hypotheses = read_text("hyp.txt");
  for (const json& setting : read_json("ter.json")) {
    const json& arguments = setting["args"];
    const TercomOptions options = {.normalized = arguments.value("normalized", false),
                                   .no_punctuation = arguments.value("no_punct", false),
                                   .asian_support = arguments.value("asian_support", false),
                                   .case_sensitive = arguments.value("case_sensitive", false)};
    const References references = read_references(setting["refs"]);
    const TerScore ter = corpus_ter(hypotheses, references, options);
    SCOPED_TRACE(setting["signature"].get<std::string>());
    EXPECT_NEAR(ter.score, setting["score"].get<double>(), 1e-10);
    EXPECT_EQ(ter.edits, setting["num_edits"].get<int64_t>());
    EXPECT_NEAR(ter.reference_length, setting["ref_length"].get<double>(), 1e-9);
    EXPECT_EQ(without_version(signature_of(*make_ter(options), references.size()).to_string()),
              without_version(setting["signature"]));
    if (!setting.contains("sentence_ref0")) continue;
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      const TerScore of_sentence =
          corpus_ter(std::span(hypotheses).subspan(i, 1), {{references[0][i]}}, options);
      EXPECT_NEAR(of_sentence.score, setting["sentence_ref0"][i][0].get<double>(), 1e-10) << "line " << i + 1;
      EXPECT_EQ(of_sentence.edits, setting["sentence_ref0"][i][1].get<int64_t>()) << "line " << i + 1;
    }
  }
}

}  // namespace
}  // namespace mtf
