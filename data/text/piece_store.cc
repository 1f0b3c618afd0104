#include "data/text/piece_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text/text_cache.h"
#include "data/text/text_rows.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

/// The pieces of a store, each a list of runs of consecutive tokens.
struct CutTexts {
  std::vector<int64_t> runs = {0};  ///< [pieces + 1]
  std::vector<int64_t> begin;       ///< [runs]
  std::vector<int32_t> length;      ///< [runs]
  std::vector<int64_t> tokens;      ///< [pieces]
};

/// Cuts the texts of a store into pieces.
class PieceCutter {
 public:
  PieceCutter(const TokenStore& store, Side side, const PieceRules& rules)
      : store_(store), side_(side), rules_(rules) {}

  CutTexts cut() {
    for (int64_t text = 0; text < store_.examples(); ++text) {
      add_text(store_.begin(side_, text), store_.begin(side_, text) + store_.length(side_, text));
      if (rules_.whole_lines || (rules_.joined > 0 && (text + 1) % rules_.joined == 0)) close();
    }
    close();
    return std::move(cut_);
  }

 private:
  void add_text(int64_t begin, int64_t end) {
    if (end > begin && store_.tokens(side_)[end - 1] == kEosId) --end;
    if (!rules_.whole_lines) return add(begin, end);
    for (const int64_t line : store_.lines(side_, begin + 1, end)) {
      add(begin, line);
      begin = line;
    }
    add(begin, end);
  }

  /// Adds a text, a part of one or a line.
  void add(int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t room = rules_.whole_lines ? rules_.most : rules_.most - tokens_;
      const int64_t length = std::min(room, end - begin);
      cut_.begin.push_back(begin);
      cut_.length.push_back(static_cast<int32_t>(length));
      begin += length;
      tokens_ += length;
      if (tokens_ >= rules_.most) close();
    }
  }

  void close() {
    if (tokens_ == 0) return;
    cut_.runs.push_back(std::ssize(cut_.begin));
    cut_.tokens.push_back(tokens_);
    tokens_ = 0;
  }

  const TokenStore& store_;
  Side side_;
  const PieceRules& rules_;
  CutTexts cut_;
  int64_t tokens_ = 0;  ///< of the piece in hand
};

PackedRows pack(const std::vector<TokenCounts>& rooms, const PiecePacking& packing,
                const std::function<void()>& next_window) {
  switch (packing.packing) {
    case Packing::kDense:
      return pack_dense(rooms, packing.row, next_window);
    case Packing::kReference:
      return pack_reference(rooms, packing.row);
    case Packing::kNone:
      break;
  }
  return pack_none(std::ssize(rooms));
}

/// Puts the pieces into the order in which rows have them.
CutTexts reordered(const CutTexts& texts, const std::vector<int64_t>& order) {
  CutTexts result;
  for (const int64_t piece : order) {
    const int64_t first = texts.runs[piece], last = texts.runs[piece + 1];
    result.begin.insert(result.begin.end(), texts.begin.begin() + first, texts.begin.begin() + last);
    result.length.insert(result.length.end(), texts.length.begin() + first, texts.length.begin() + last);
    result.runs.push_back(std::ssize(result.begin));
  }
  return result;
}

void build(const std::string& path, const PieceTokens& tokens, const PieceRules& rules,
           const PiecePacking& packing, const std::function<void()>& next_window) {
  const CutTexts texts = PieceCutter(*tokens.store, tokens.side, rules).cut();
  TextReport report;
  report.examples = tokens.store->examples();
  report.blank_lines = tokens.store->counts().blank_lines;
  report.empty = tokens.store->counts().empty;
  std::vector<TokenCounts> rooms;
  for (const int64_t length : texts.tokens) {
    const TokenCounts& room = rooms.emplace_back(packing.room(length));
    for (const Side side : kSides) report.tokens[side] += room[side];
  }
  if (rooms.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no text", fmt::join(tokens.files.groups.front(), ", ")),
                "files with texts");
  const PackedRows rows = pack(rooms, packing, next_window);
  report.rows = rows.rows();
  const CutTexts pieces = reordered(texts, rows.examples);
  const std::vector<StoredTensor> tensors = {tensor_of("first", rows.first), tensor_of("runs", pieces.runs),
                                             tensor_of("begin", pieces.begin),
                                             tensor_of("length", pieces.length)};
  write_store(path, tensors, stored_numbers(report));
}

/// Equal for rules that give the same pieces and rows.
std::string key_of(const PieceTokens& tokens, const PieceRules& rules, const PiecePacking& packing) {
  std::string text =
      fmt::format("pieces 1\n{} {}\nmost {} joined {} whole_lines {}\npacking {} row {} {}\nrooms",
                  tokens.key, name_of(tokens.side), rules.most, rules.joined, rules.whole_lines,
                  static_cast<int>(packing.packing), packing.row.inputs, packing.row.targets);
  for (int64_t length = 1; length < 2 * rules.most; ++length) {
    const TokenCounts room = packing.room(length);
    text += fmt::format(" {} {}", room.inputs, room.targets);
  }
  return hash128_hex(text);
}

}  // namespace

PieceStore::PieceStore(const std::string& path, std::shared_ptr<const TokenStore> tokens, Side side)
    : file_(read_store(path)), tokens_(std::move(tokens)), side_(side) {
  first_ = mapped_values<int64_t>(file_, "first");
  runs_ = mapped_values<int64_t>(file_, "runs");
  begin_ = mapped_values<int64_t>(file_, "begin");
  length_ = mapped_values<int32_t>(file_, "length");
  const auto ascends_to = [](std::span<const int64_t> ends, int64_t last) {
    return ends.size() >= 2 && ends.front() == 0 && ends.back() == last && std::ranges::is_sorted(ends);
  };
  if (!ascends_to(runs_, std::ssize(begin_)) || !ascends_to(first_, pieces()) ||
      length_.size() != begin_.size())
    throw_damaged_store(path);
  const auto stored = std::ssize(tokens_->tokens(side));
  for (size_t run = 0; run < begin_.size(); ++run) {
    if (length_[run] < 1 || begin_[run] < 0 || begin_[run] > stored - length_[run]) throw_damaged_store(path);
  }
  report_ = stored_report(file_);
}

void PieceStore::read(int64_t piece, int64_t vocabulary, PieceText& text, int64_t skipped) const {
  text.tokens.clear();
  text.ends.clear();
  for (int64_t run = runs_[piece] + skipped; run < runs_[piece + 1]; ++run) {
    const std::span<const int32_t> tokens =
        tokens_->tokens(side_).subspan(static_cast<size_t>(begin_[run]), static_cast<size_t>(length_[run]));
    if (std::ranges::any_of(tokens, [&](int64_t id) { return id < 0 || id >= vocabulary; }))
      throw_damaged_store(tokens_->path());
    text.tokens.insert(text.tokens.end(), tokens.begin(), tokens.end());
    text.ends.push_back(std::ssize(text.tokens));
  }
}

PieceStore open_piece_store(const PieceTokens& tokens, const PieceRules& rules, const PiecePacking& packing,
                            const TextProgress& progress,
                            const std::function<void(const std::string&)>& note) {
  const std::string path =
      fmt::format("{}/pieces-{}.safetensors", tokens.cache, key_of(tokens, rules, packing));
  const auto report = [&](TextStage stage) {
    if (progress) progress(stage, 0, 0);
  };
  return open_or_build(
      path, [&] { return PieceStore(path, tokens.store, tokens.side); },
      [&] {
        report(TextStage::kPack);
        build(path, tokens, rules, packing, [&] { report(TextStage::kPack); });
        const RemovedStores removed = remove_old_stores(tokens.cache);
        if (note && removed.count > 0) note(removed.to_string(tokens.cache));
      },
      [&] { report(TextStage::kWait); }, note);
}

}  // namespace mtf
