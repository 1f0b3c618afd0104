// Tables with a row for each example: CSV, TSV and JSON Lines files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "engine/config/types.h"

namespace mtf {

/// Which columns of a table are which features. Columns are named by the first line of the file or, in JSON Lines, by the
/// keys of its first object.
struct TableColumns {
  std::vector<config::Name> inputs;       ///< feature `x`; empty: all columns that are nothing else
  std::vector<config::Name> categorical;  ///< inputs that are words: a number 0 or 1 for each word
  config::Name labels;                    ///< feature `labels`; may be empty
  std::vector<std::string> classes;       ///< the names of its classes; empty: numbers, or the words in order
  std::vector<config::Name> targets;      ///< feature `y`; may be empty
  bool normalize = false;  ///< inputs that are numbers: less their mean, divided by their deviation
};

/// What a table is opened with beside its columns.
struct TableContext {
  Mark mark = {};                          ///< for columns that are not named
  std::optional<std::string> preparation;  ///< SourceContext::preparation
  bool labelled = true;                    ///< false: `labels` and `targets` are not looked for
  bool prepares = true;                    ///< SourceContext::prepares
  /// True for examples whose numbers count for means and deviations.
  std::function<bool(uint64_t hash)> counts;
};

/// Opens tables with the same columns; the examples are in the order of the files. Features: `x` float32 [inputs],
/// `labels` int32 [], `y` float32 [targets]. The preparation has the columns, the words, the classes, the means and the
/// deviations, and those of the training data count for others. Throws Error: kConfig for a column that is not there,
/// kData with file, line and column for a value that is missing, no number or unknown.
std::unique_ptr<Source> open_table(const std::vector<std::string>& paths, const TableColumns& columns,
                                   const TableContext& context);

}  // namespace mtf
