#include "data/sources/dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

const std::array<std::vector<std::string>, 5> kUsualNames = {
    {{}, {"inputs"}, {"rows", "cols"}, {"rows", "cols", "channels"}, {"rows", "cols", "depth", "channels"}}};

void check_names(const std::vector<config::Name>& names, const Mark& mark) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    const Mark& at = name->mark.known() ? name->mark : mark;
    if (name->text == "batch")
      throw Error(ErrorKind::kConfig, at, "`batch` is the dimension of the examples", "another name");
    if (name->empty()) throw Error(ErrorKind::kConfig, at, "a dimension has no name", "a word");
    if (std::find(names.begin(), name, *name) != name)
      throw Error(ErrorKind::kConfig, at, fmt::format("two dimensions are called `{}`", name->text),
                  "a name for each dimension");
  }
}

}  // namespace

Shape named_shape(std::span<const int64_t> sizes, const std::vector<config::Name>& names, const Mark& mark,
                  const std::string& what) {
  const std::string described =
      sizes.empty() ? "one number each" : fmt::format("{}", fmt::join(sizes, " x "));
  std::vector<std::string> used;
  if (!names.empty()) {
    check_names(names, mark);
    for (const config::Name& name : names) used.push_back(name.text);
  } else if (sizes.size() < kUsualNames.size()) {
    used = kUsualNames[sizes.size()];
  } else {
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("{} are {}: {} without names", what, described,
                            counted(static_cast<int64_t>(sizes.size()), "dimension")),
                "`dimensions` with a name for each");
  }
  if (used.size() != sizes.size())
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`dimensions` has {} ({}), but {} are {}",
                            counted(static_cast<int64_t>(used.size()), "name"), fmt::join(used, ", "), what,
                            described),
                "a name for each dimension of an example");
  std::vector<Dimension> dimensions;
  for (size_t i = 0; i < used.size(); ++i) dimensions.push_back({used[i], sizes[i]});
  return Shape(std::move(dimensions));
}

}  // namespace mtf
