#include "data/text/text_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "data/text/old_stores.h"
#include "data/text/packing.h"
#include "data/text/text_cache.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

/// Visits the numbers of a report that are stored with the rows.
template <class Visit>
void visit_numbers(TextReport& report, const Visit& visit) {
  visit("examples", report.examples);
  visit("blank_lines", report.blank_lines);
  visit("empty", report.empty);
  visit("too_long", report.too_long);
  visit("too_unequal", report.too_unequal);
  visit("rows", report.rows);
  visit("inputs", report.tokens.inputs);
  visit("targets", report.tokens.targets);
}

}  // namespace

std::map<std::string, std::string> stored_numbers(TextReport report) {
  std::map<std::string, std::string> numbers;
  visit_numbers(report, [&](const char* name, int64_t value) { numbers[name] = fmt::to_string(value); });
  return numbers;
}

TextReport stored_report(const SafetensorsFile& file) {
  TextReport report;
  visit_numbers(report, [&](const char* name, int64_t& value) { value = stored_number(file, name); });
  return report;
}

namespace {

/// A span of consecutive tokens that are placed together in a row.
struct Piece {
  BySide<int64_t> begin;
  TokenCounts length;
};

/// Filters the examples by the rules, cuts them into pieces that fit into a row, and counts what is dropped.
class Selection {
 public:
  Selection(const TokenStore& tokens, const RowRules& rules) : tokens_(tokens), rules_(rules) {
    for (const Side side : kSides) {
      if (rules.row[side] > 0) sides_.push_back(side);
    }
    report_.blank_lines = tokens.counts().blank_lines;
    if (rules.has_preferences) {
      report_.examples = tokens.examples() / 2;
      for (int64_t i = 0; i + 1 < tokens.examples(); i += 2) select_preference(i);
      return;
    }
    report_.examples = tokens.examples();
    for (int64_t i = 0; i < tokens.examples(); ++i) select(i);
  }

  const std::vector<Piece>& pieces() const { return pieces_; }
  const TextReport& report() const { return report_; }

 private:
  void select(int64_t i) {
    Piece piece;
    bool empty = false, too_long = false;
    BySide<int64_t> length;
    for (const Side side : sides_) {
      piece.begin[side] = tokens_.begin(side, i);
      length[side] = tokens_.length(side, i);
      if (length[side] == 0) {
        empty = true;
        piece.begin[side] = tokens_.lone_end(side);
        length[side] = 1;
      }
      too_long |= length[side] > rules_.limit[side];
    }
    report_.empty += empty;
    if (empty && !rules_.keep_empty) return;
    if (is_too_unequal(i, length)) {
      ++report_.too_unequal;
      return;
    }
    if (too_long && rules_.cuts_joined_pairs && !keeps_targets(i)) {
      ++report_.empty;
      return;
    }
    report_.too_long += too_long;
    if (too_long && rules_.too_long == TooLong::kDrop) return;
    if (too_long && rules_.too_long == TooLong::kSplit) return split(piece, length);
    if (rules_.has_answers && !rules_.keep_empty && !is_learned(i)) {
      ++report_.empty;
      return;
    }
    for (const Side side : sides_) piece.length[side] = cut(length[side], side);
    pieces_.push_back(piece);
  }

  /// Selects the texts `first` and the one after it, or neither. In an evaluation, too, both answers must be learned: others
  /// cannot be compared.
  void select_preference(int64_t first) {
    const BySide<int64_t> lengths{tokens_.length(Side::kTargets, first),
                                  tokens_.length(Side::kTargets, first + 1)};
    if (is_too_unequal(first, lengths)) {
      ++report_.too_unequal;
      return;
    }
    const bool too_long = std::max(lengths.inputs, lengths.targets) > rules_.limit.targets;
    report_.too_long += too_long;
    if (too_long && rules_.too_long == TooLong::kDrop) return;
    if (!is_learned(first) || !is_learned(first + 1)) {
      ++report_.empty;
      return;
    }
    for (const int64_t i : {first, first + 1}) {
      Piece& piece = pieces_.emplace_back();
      piece.begin.targets = tokens_.begin(Side::kTargets, i);
      piece.length.targets = cut(tokens_.length(Side::kTargets, i), Side::kTargets);
    }
  }

  /// True if something of conversation i has a loss, after a cut.
  bool is_learned(int64_t i) const {
    const int64_t begin = tokens_.begin(Side::kTargets, i),
                  length = cut(tokens_.length(Side::kTargets, i), Side::kTargets);
    return std::ranges::any_of(
        tokens_.tokens(Side::kTargets).subspan(static_cast<size_t>(begin), static_cast<size_t>(length)),
        [](int32_t id) { return id > 0; });
  }

  bool is_too_unequal(int64_t i, const BySide<int64_t>& length) const {
    if (!rules_.max_ratio || (sides_.size() < 2 && !rules_.joins_pairs && !rules_.has_preferences))
      return false;
    const BySide<int64_t> parts = rules_.joins_pairs ? parts_of(i) : length;
    const auto [shorter, longer] = std::minmax(parts.inputs, parts.targets);
    return static_cast<double>(longer) > *rules_.max_ratio * static_cast<double>(shorter);
  }

  /// The tokens of the inputs and of the targets of joined pair i, each with its end of sequence.
  BySide<int64_t> parts_of(int64_t i) const {
    const int64_t begin = tokens_.begin(Side::kTargets, i), length = tokens_.length(Side::kTargets, i);
    const std::span<const int32_t> tokens =
        tokens_.tokens(Side::kTargets).subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
    const int64_t inputs = std::ranges::find(tokens, kEosId) - tokens.begin() + 1;
    return {inputs, length - inputs};
  }

  /// True if the cut leaves the inputs of joined pair i, their end of sequence and a token of the targets. An end of
  /// sequence is the last token that it leaves.
  bool keeps_targets(int64_t i) const { return parts_of(i).inputs <= rules_.limit.targets - 2; }

  void split(Piece piece, const BySide<int64_t>& length) {
    const Side side = sides_.front();
    for (const int64_t end = piece.begin[side] + length[side]; piece.begin[side] < end;) {
      piece.length[side] = cut(end - piece.begin[side], side);
      pieces_.push_back(piece);
      piece.begin[side] += piece.length[side];
    }
  }

  int32_t cut(int64_t length, Side side) const {
    return static_cast<int32_t>(std::min(length, rules_.limit[side]));
  }

  const TokenStore& tokens_;
  const RowRules& rules_;
  std::vector<Side> sides_;
  std::vector<Piece> pieces_;
  TextReport report_;
};

PackedRows pack(const std::vector<Piece>& pieces, const RowRules& rules,
                const std::function<void()>& next_window) {
  if (rules.packing == Packing::kNone)
    return pack_none(static_cast<int64_t>(pieces.size()), rules.has_preferences ? 2 : 1);
  std::vector<TokenCounts> lengths;
  lengths.reserve(pieces.size());
  for (const Piece& piece : pieces) lengths.push_back(piece.length);
  return rules.packing == Packing::kDense ? pack_dense(lengths, rules.row, next_window)
                                          : pack_reference(lengths, rules.row);
}

void build(const std::string& path, const TokenStore& tokens, const RowRules& rules, const TextFiles& files,
           const std::function<void()>& next_window) {
  const Selection selection(tokens, rules);
  const std::vector<Piece>& pieces = selection.pieces();
  TextReport report = selection.report();
  report.rules = rules;
  if (pieces.empty()) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: {}", fmt::join(files.groups.front(), ", "), report.to_string()),
                "a greater `data.sequence_length`, or another `data.filter`");
  }
  const PackedRows rows = pack(pieces, rules, next_window);
  report.rows = rows.rows();
  std::vector<StoredTensor> tensors = {tensor_of("first", rows.first)};
  BySide<std::vector<int64_t>> begin;
  BySide<std::vector<int32_t>> length;
  for (const Side side : kSides) {
    if (rules.row[side] == 0) continue;
    for (const int64_t i : rows.examples) {
      begin[side].push_back(pieces[i].begin[side]);
      length[side].push_back(pieces[i].length[side]);
      report.tokens[side] += pieces[i].length[side];
    }
    tensors.push_back(tensor_of(tensor_name(side, "begin"), begin[side]));
    tensors.push_back(tensor_of(tensor_name(side, "length"), length[side]));
  }
  write_store(path, tensors, stored_numbers(report));
}

}  // namespace

RowStore::RowStore(const std::string& path, const TokenStore& tokens, const BySide<int64_t>& row)
    : file_(read_store(path)) {
  first_ = mapped_values<int64_t>(file_, "first");
  for (const Side side : kSides) {
    if (!file_.find(tensor_name(side, "begin"))) continue;
    begin_[side] = mapped_values<int64_t>(file_, tensor_name(side, "begin"));
    length_[side] = mapped_values<int32_t>(file_, tensor_name(side, "length"));
  }
  report_ = stored_report(file_);
  check(tokens, row);
}

void RowStore::check(const TokenStore& tokens, const BySide<int64_t>& row) const {
  const auto require = [&](bool sound) {
    if (!sound) throw_damaged_store(file_.path());
  };
  require(first_.size() >= 2 && first_.front() == 0 && std::ranges::is_sorted(first_));
  for (const Side side : kSides) {
    if (row[side] == 0) continue;
    const auto pieces = static_cast<int64_t>(begin_[side].size());
    require(pieces == first_.back() && length_[side].size() == begin_[side].size());
    const auto stored = static_cast<int64_t>(tokens.tokens(side).size());
    for (int64_t r = 0; r < rows(); ++r) {
      int64_t used = 0;
      for (int64_t p = first(r); p < first(r + 1); ++p) {
        require(length(side, p) >= 0 && begin(side, p) >= 0 && begin(side, p) <= stored - length(side, p));
        used += length(side, p);
      }
      require(used <= row[side]);
    }
  }
}

RowStore open_row_store(const TokenStore& tokens, const std::string& tokens_key, const RowRules& rules,
                        const TextFiles& files, const std::string& cache_directory,
                        const TextProgress& progress, const std::function<void(const std::string&)>& note) {
  const std::string key = hash128_hex(
      fmt::format("rows 1\n{}\nrow {} {} limit {} {} ratio {} too_long {} packing {} keep_empty {}{}{}\n",
                  tokens_key, rules.row.inputs, rules.row.targets, rules.limit.inputs, rules.limit.targets,
                  rules.max_ratio.value_or(0), static_cast<int>(rules.too_long),
                  static_cast<int>(rules.packing), rules.keep_empty,
                  rules.cuts_joined_pairs ? " joined pairs"
                  : rules.has_preferences ? " preferences"
                  : rules.has_answers     ? " conversations"
                                          : "",
                  rules.joins_pairs && rules.max_ratio ? " ratio of parts" : ""));
  const auto report = [&](TextStage stage) {
    if (progress) progress(stage, 0, 0);
  };
  const std::string path = fmt::format("{}/rows-{}.safetensors", cache_directory, key);
  return open_or_build(
      path, [&] { return RowStore(path, tokens, rules.row); },
      [&] {
        report(TextStage::kPack);
        build(path, tokens, rules, files, [&] { report(TextStage::kPack); });
        const RemovedStores removed = remove_old_stores(cache_directory);
        if (note && removed.count > 0) note(removed.to_string(cache_directory));
      },
      [&] { report(TextStage::kWait); }, note);
}

}  // namespace mtf
