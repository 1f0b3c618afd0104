// The nearest legal word to one that a user mistyped.
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

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment); case does not count.
int64_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance (the first of several), or nothing when none is near: more
/// than a third of the word's letters would have to change.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean `runs/mnist.yaml`?" when a file of a similar name stands where `path` should be; else empty.
std::string did_you_mean_file(const std::string& path);

/// A hint for a Problem: "it could be 16 or 24", the multiples of `factor` next to `wanted`, which is none.
std::string nearest_multiples(int64_t factor, int64_t wanted);

/// A name that other programs have for something that is called otherwise here, or is put together here.
struct CommonName {
  std::string_view word;   ///< is_same_name()
  std::string_view meant;  ///< with backquotes: "`adam` with a `weight_decay`"
};

/// The same letters in any case, with or without `_` and `-`: "LayerNorm" and "layer_norm".
bool is_same_name(std::string_view a, std::string_view b);

/// A hint for a Problem: what is meant by a common name, else the nearest candidate, else the candidates (at
/// most 12 of them); empty without candidates.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::span<const CommonName> common_names = {});

}  // namespace mtf
