// A memory-mapped file with the tokens of a source of text. It is built once and stored in the cache
// directory under a hash of everything that determines it.
//
//   const std::string key = token_store_key(files, options, cache_directory);
//   const TokenStore store = open_token_store(files, options, key, cache_directory);
//   store.tokens(Side::kTargets).subspan(store.begin(Side::kTargets, i), store.length(Side::kTargets, i))
//
// The file has the safetensors format. It holds `SIDE/tokens` int32 [tokens + 1], where the last element is
// an end-of-sequence token that belongs to no example, `SIDE/offsets` int64 [examples + 1], and `SIDE/lines` int64 [lines],
// the first token of each line but the first one of each text, where lines are encoded apart. With alignments it holds
// `alignment/links` int32 [2 links + 1] and `alignment/offsets` int64 [examples + 1], likewise.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source_options.h"
#include "data/text/text_scan.h"
#include "data/text/tokenize.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {

/// Returns the elements of a one-dimensional tensor in a mapped file. Throws Error (kCheckpoint) when it does
/// not exist or has another type.
template <class T>
std::span<const T> mapped_values(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.at(name);
  const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
  if (tensor.dtype != DTypeOf<T>::value || tensor.shape.size() != 1 || address % alignof(T) != 0)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: `{}` is not what it should be", file.path(), name));
  return {reinterpret_cast<const T*>(tensor.data.data()), static_cast<size_t>(tensor.size())};
}

/// The values as a tensor of a file. It refers to `values`, which must outlive it.
template <class T>
StoredTensor tensor_of(const std::string& name, const std::vector<T>& values) {
  return {.name = name,
          .dtype = DTypeOf<T>::value,
          .shape = {static_cast<int64_t>(values.size())},
          .data = std::as_bytes(std::span(values))};
}

/// Returns "SIDE/WHAT".
std::string tensor_name(Side side, std::string_view what);

/// Returns the number `name` in the metadata of a file. Throws Error (kCheckpoint) when there is none.
int64_t stored_number(const SafetensorsFile& file, const std::string& name);

class TokenStore {
 public:
  /// Opens a file. Throws Error (kCheckpoint) when it does not exist or is damaged.
  explicit TokenStore(const std::string& path);

  const std::string& path() const { return file_.path(); }
  int64_t examples() const { return counts_.examples; }
  const TextCounts& counts() const { return counts_; }
  bool has(Side side) const { return !offsets_[side].empty(); }

  /// The tokens of all examples, one after the other.
  std::span<const int32_t> tokens(Side side) const { return tokens_[side]; }
  /// The index of the first token of example i, and its number of tokens, which is 0 for an empty text.
  int64_t begin(Side side, int64_t i) const { return offsets_[side][i]; }
  int64_t length(Side side, int64_t i) const { return offsets_[side][i + 1] - offsets_[side][i]; }
  /// Returns the example to which a token belongs.
  int64_t example_at(Side side, int64_t token) const {
    return std::ranges::upper_bound(offsets_[side], token) - offsets_[side].begin() - 1;
  }
  /// True if `end` is one past the last token of some example.
  bool ends_example(Side side, int64_t end) const { return std::ranges::binary_search(offsets_[side], end); }
  /// The lines that are encoded apart, but the first, that begin within the tokens [begin, end).
  std::span<const int64_t> lines(Side side, int64_t begin, int64_t end) const {
    const std::span<const int64_t> all = lines_[side];
    const auto first = std::ranges::lower_bound(all, begin), last = std::ranges::lower_bound(all, end);
    return {first, last};
  }
  /// The index of the end-of-sequence token that belongs to no example. Empty texts that are kept refer to
  /// it.
  int64_t lone_end(Side side) const { return static_cast<int64_t>(tokens_[side].size()) - 1; }

  /// The linked tokens of example i, of inputs and targets in turns, by their places in its texts; empty without alignments.
  std::span<const int32_t> links(int64_t i) const {
    if (link_offsets_.empty()) return {};
    return links_.subspan(static_cast<size_t>(link_offsets_[i]),
                          static_cast<size_t>(link_offsets_[i + 1] - link_offsets_[i]));
  }

 private:
  void read_links();

  SafetensorsFile file_;
  TextCounts counts_;
  BySide<std::span<const int32_t>> tokens_;
  BySide<std::span<const int64_t>> offsets_;
  BySide<std::span<const int64_t>> lines_;
  std::span<const int32_t> links_;
  std::span<const int64_t> link_offsets_;
};

/// Returns the XXH3-128 hash of everything that determines the tokens that are not drawn: the bytes of the files, the
/// source's options and the vocabularies.
std::string token_store_key(const TextFiles& files, const TokenizeOptions& options,
                            const std::string& cache_directory);

/// Returns the XXH3-128 hash of what determines the texts of a source: its options and the bytes of its files, not their
/// paths. Files that are missing are left out. `cache_directory`: where hashes of files are kept; empty:
/// default_cache_directory().
std::string texts_key(const SourceChoice& source, const std::string& cache_directory);

/// The key of the tokens that are stored, which are drawn if the options say so; otherwise it is `key`, token_store_key().
std::string stored_key(const std::string& key, const TokenizeOptions& options);

/// Opens tokens-STORED_KEY.safetensors in the directory; `key`: token_store_key(). If it does not exist or is damaged, which is
/// reported to `note`, scans and tokenises the files first. Throws Error (kData) for files with a text beyond their limit, also
/// where a greater limit has made the store.
TokenStore open_token_store(const TextFiles& files, const TokenizeOptions& options, const std::string& key,
                            const std::string& cache_directory,
                            const std::function<void(const std::string&)>& note = {});

}  // namespace mtf
