// Pieces of the texts of a source, of which an objective makes one example each, and the rows that these examples share.
// Both are kept in the cache directory next to the token store, whose tokens they refer to.
//
//   const PieceStore pieces = open_piece_store(tokens, key, rules, ...);
//   for (int64_t piece = pieces.first(row); piece < pieces.first(row + 1); ++piece) pieces.read(piece, text);
//
// The file has the safetensors format. It holds `first` int64 [rows + 1], the first piece of each row; `runs`
// int64 [pieces + 1], the first run of each piece; `begin` int64 [runs] and `length` int32 [runs], the tokens of each run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/text/packing.h"
#include "data/text/text_report.h"
#include "data/text/token_store.h"

namespace mtf {

/// How texts are cut into pieces. The end-of-sequence token of a text is in no piece.
struct PieceRules {
  int64_t most = 1;    ///< tokens of a piece
  int64_t joined = 1;  ///< so many texts at a time become one, which is cut; 0: all
  /// Pieces are cut between lines: each has as many lines of one text as are needed for `most` tokens, with less than `most`
  /// more. Each line, or `most` tokens of it, is a run.
  bool whole_lines = false;
};

/// How examples share rows.
struct PiecePacking {
  Packing packing = Packing::kDense;
  BySide<int64_t> row;                              ///< capacity of a row; 0: there is no such side
  std::function<TokenCounts(int64_t tokens)> room;  ///< what the example of a piece takes of it
};

/// The tokens of a piece; run i ends before ends[i].
struct PieceText {
  std::vector<int32_t> tokens;
  std::vector<int64_t> ends;
};

class PieceStore {
 public:
  /// Opens a file, whose pieces are of one side of `tokens`. Throws Error (kCheckpoint) when it does not exist or is
  /// damaged, or unless each piece lies within the tokens.
  PieceStore(const std::string& path, std::shared_ptr<const TokenStore> tokens, Side side);

  const std::string& path() const { return file_.path(); }
  int64_t rows() const { return static_cast<int64_t>(first_.size()) - 1; }
  int64_t pieces() const { return static_cast<int64_t>(runs_.size()) - 1; }
  /// The first piece of row r. The pieces of the last row end before first(rows()).
  int64_t first(int64_t r) const { return first_[r]; }
  /// The text in which a piece begins.
  int64_t text_of(int64_t piece) const { return tokens_->example_at(side_, begin_[runs_[piece]]); }
  int64_t runs(int64_t piece) const { return runs_[piece + 1] - runs_[piece]; }
  /// Replaces `text` by the piece without its first `skipped` runs. Throws Error (kCheckpoint) for an id outside
  /// 0 .. vocabulary - 1.
  void read(int64_t piece, int64_t vocabulary, PieceText& text, int64_t skipped = 0) const;

  /// The stored statistics; `rules` are not stored.
  const TextReport& report() const { return report_; }

 private:
  SafetensorsFile file_;
  TextReport report_;
  std::span<const int64_t> first_, runs_, begin_;
  std::span<const int32_t> length_;
  std::shared_ptr<const TokenStore> tokens_;
  Side side_;
};

/// The tokens that pieces are made of.
struct PieceTokens {
  std::shared_ptr<const TokenStore> store;
  std::string key;  ///< of the store
  Side side = Side::kTargets;
  const TextFiles& files;
  std::string cache;  ///< directory of the stores
};

/// Opens the pieces, which are made first if the cache does not have them, or has them damaged; then old stores are
/// removed. Both is reported to `note`. Throws Error (kData), which names the files, when there is no piece.
PieceStore open_piece_store(const PieceTokens& tokens, const PieceRules& rules, const PiecePacking& packing,
                            const TextProgress& progress = {},
                            const std::function<void(const std::string&)>& note = {});

}  // namespace mtf
