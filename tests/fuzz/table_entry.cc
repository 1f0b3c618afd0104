// The entry for tables. The first line says what the rest is: "csv", "tsv" or "jsonl". Whatever the columns are, they are
// read as words, as numbers and as labels.
#include "data/sources/table.h"
#include "data/sources/table_reader.h"
#include "engine/base/check.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void open(const std::string& path, const TableColumns& columns) {
  succeeds([&] {
    const auto source = open_table({path}, columns, {});
    MTF_CHECK(source->examples() >= 1, "no examples and no Error");
    source->check_labels({2});
    // What was prepared reads back, and makes the same of the same file.
    const TableContext context{.mark = {}, .preparation = source->preparation(), .counts = {}};
    succeeds([&] { open_table({path}, columns, context); });
  });
}

}  // namespace

void run_table(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const std::string_view kind = input.substr(0, end);
  const std::string extension = kind == "tsv" || kind == "jsonl" ? std::string(kind) : "csv";
  const std::string path = write_input("input." + extension, input.substr(std::min(end + 1, input.size())));
  std::vector<std::string> names;
  if (!succeeds([&] { names = open_table_reader(path)->columns(); })) return;
  for (const bool words : {false, true}) {
    TableColumns columns;
    columns.labels = names.back();
    columns.normalize = true;
    if (words) columns.categorical.assign(names.begin(), names.end() - 1);
    open(path, columns);
    columns.labels = {};
    columns.targets = {names.back()};
    open(path, columns);
  }
}

}  // namespace mtf::fuzz
