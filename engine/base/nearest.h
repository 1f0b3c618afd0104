// Hints for mistyped words: the nearest valid word.
//
//   did_you_mean("stepz", {"steps", "epochs"});   // "did you mean `steps`?"
//   did_you_mean("foo", {"steps", "epochs"});     // "one of `steps`, `epochs`"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment distance). Case is ignored.
int64_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate with the smallest edit distance (the first of several), or nothing if that distance
/// is more than a third (rounded up) of the longer word's letters, or a word has over 300 letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns "did you mean `runs/mnist.yaml`?" if the directory of `path` holds a file with a similar name,
/// otherwise an empty string.
std::string did_you_mean_file(const std::string& path);

/// Returns a hint for a Problem that names the multiples of `factor` next to `wanted`, which is not one of
/// them: "it could be 16 or 24".
std::string nearest_multiples(int64_t factor, int64_t wanted);

/// A name that other programs use for something that has another name or is composed of several options here.
struct CommonName {
  std::string_view word;   ///< compared by is_same_name()
  std::string_view meant;  ///< what to write instead, with backquotes: "`adam` with a `weight_decay`"
};

/// True if both have the same letters, ignoring case, `_` and `-`: "LayerNorm" and "layer_norm".
bool is_same_name(std::string_view a, std::string_view b);

/// Returns a hint for a Problem: the meaning of a common name, otherwise the nearest candidate, otherwise the
/// candidates (at most 12 of them); empty if there are none.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::span<const CommonName> common_names = {});

}  // namespace mtf
