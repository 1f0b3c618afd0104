#include "engine/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "engine/base/nearest.h"
#include "engine/config/types.h"
#include "engine/config/variables.h"

namespace mtf::config {
namespace {

namespace fs = std::filesystem;

/// The largest size of a configuration file. Without a limit, reading some devices would never end.
constexpr size_t kLongestFile = 1 << 20;
constexpr int kMostFiles = 1000;
constexpr std::string_view kSharedLayout = "shared_layout";
constexpr std::string_view kVars = "vars";

/// The tree of a file, and the files that it includes.
struct Source {
  Node root;
  std::vector<Source> included;
};

/// Merges as merge() does, but replaces the sections that `rules` says are replaced completely.
Node merge_roots(const Node& base, const Node& over, const Rules& rules, VariableOpener& variables) {
  Node start = base;
  for (const std::string& key : rules.replaced_whole) {
    if (over.entry(key)) start = start.without(key);
  }
  return merge(start, over, &variables);
}

/// Merges, of a file and those that it includes, what `part` returns of the tree of each.
Node merged(const Source& source, Node (*part)(const Node&), const Rules& rules, VariableOpener& variables) {
  Node result = Node::map({}, source.root.mark());
  for (const Source& included : source.included)
    result = merge_roots(result, merged(included, part, rules, variables), rules, variables);
  return merge_roots(result, part(source.root), rules, variables);
}

Node only_variables(const Node& root) {
  const Entry* vars = root.entry(kVars);
  return vars ? Node::map({*vars}, root.mark()) : Node::map({}, root.mark());
}

Node without_variables(const Node& root) { return root.without(kVars); }

class FileLoader {
 public:
  FileLoader(const Rules& rules, Diagnostics& diagnostics) : rules_(rules), diagnostics_(diagnostics) {}

  /// Loads a file and the files that it includes. `where` is the place of the `include` that names it.
  Source load(const std::string& path, const Mark& where) {
    if (++files_ > kMostFiles) {
      if (files_ == kMostFiles + 1)
        diagnostics_.error(where, fmt::format("more than {} files are included", kMostFiles));
      return {Node::map({}).as_incomplete(), {}};
    }
    std::error_code not_canonical;  // ignored: read() reports what is wrong with the path
    const std::string canonical = fs::weakly_canonical(path, not_canonical).string();
    if (const auto first = std::find(open_.begin(), open_.end(), canonical); first != open_.end()) {
      report_circle(path, first - open_.begin(), where);
      return {Node::map({}).as_incomplete(), {}};
    }
    diagnostics_.add_source(path);
    const std::optional<std::string> text = read(path, where);
    if (!text) return {Node::map({}).as_incomplete(), {}};
    const Node node = root_of(*text, path);
    open_.push_back(canonical);
    names_.push_back(path);
    Source result{node.without("include"), included(node, path)};
    open_.pop_back();
    names_.pop_back();
    return result;
  }

  /// Returns the dimensions all of whose rules in the merged `root` come from files that share them.
  std::vector<std::string> shared_dimensions(const Node& root) const {
    std::map<std::string, bool> shared;
    std::vector<std::string> dimensions;
    for (const std::string& section : rules_.layouts) {
      const Node* rules = root.find(section);
      if (rules == nullptr) continue;
      Diagnostics ignored;  // they are reported when the section is parsed
      const Node map = rules->is_scalar() ? pairs_to_map(*rules, "", ignored) : *rules;
      for (const Entry& rule : map.entries()) {
        const auto [known, added] = shared.emplace(rule.key, true);
        if (added) dimensions.push_back(rule.key);
        known->second = known->second && shares(rule.mark.file, rule.key);
      }
    }
    std::erase_if(dimensions, [&](const std::string& dimension) { return !shared[dimension]; });
    return dimensions;
  }

  /// Parses a text into a map without `shared_layout`, which is recorded; reports anything else than a map.
  Node root_of(const std::string& text, const std::string& name) {
    const Node node = parse_yaml(text, name, diagnostics_);
    if (node.is_null()) return node.incomplete() ? Node::map({}).as_incomplete() : Node::map({});
    if (!node.is_map()) {
      report_root(node);
      return Node::map({}).as_incomplete();
    }
    if (const Node* shared = node.find(kSharedLayout)) note_shared(name, *shared);
    return node.without(kSharedLayout);
  }

 private:
  bool shares(const std::string& file, const std::string& dimension) const {
    const auto found = shared_.find(file);
    if (found == shared_.end()) return false;
    const Node& what = found->second;
    return what.is_scalar() ? to_bool(what.text()).value_or(false)
                            : std::ranges::any_of(what.elements(), [&](const Node& element) {
                                return element.text() == dimension;
                              });
  }

  void note_shared(const std::string& path, const Node& what) {
    const bool dimensions = what.is_list() && std::ranges::all_of(what.elements(), &Node::is_scalar);
    if (dimensions || (what.is_scalar() && to_bool(what.text()))) {
      shared_.emplace(path, what);
    } else {
      diagnostics_.error(what.mark(), fmt::format("`{}` must be true, false or a list of dimensions, not {}",
                                                  kSharedLayout, what.describe()));
    }
  }

  void report_circle(const std::string& path, ptrdiff_t first, const Mark& where) {
    const std::string way = fmt::format("{}", fmt::join(names_.begin() + first + 1, names_.end(), ", "));
    diagnostics_.error(where,
                       fmt::format("`{}` includes itself{}{}", path, way.empty() ? "" : " by way of ", way),
                       "leave this include out");
  }

  std::optional<std::string> read(const std::string& path, const Mark& where) {
    const Mark mark = where.known() ? where : Mark{path, 0, 0, 1, {}};
    const auto fail = [&](std::string_view reason, std::string hint = {}) {
      diagnostics_.error(mark, where.known() ? fmt::format("`{}`: {}", path, reason) : std::string(reason),
                         std::move(hint));
      return std::nullopt;
    };
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return fail("is a directory, not a YAML file");
    // Files on the command line may be pipes, such as those that a shell makes for `<(...)`.
    if (where.known() && fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
      return fail("is no regular file", "only files can be included; name a pipe on the command line");
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rb"),
                                                                  std::fclose);
    if (!file && errno == ENOENT) return fail("there is no such file", did_you_mean_file(path));
    if (!file) return fail(system_message(errno));
    std::string text;
    std::array<char, 16384> part;
    size_t got = 0;
    while (text.size() <= kLongestFile && (got = std::fread(part.data(), 1, part.size(), file.get())) > 0)
      text.append(part.data(), got);
    if (std::ferror(file.get())) return fail("cannot be read: " + system_message(errno));
    if (text.size() > kLongestFile)
      return fail(fmt::format("is larger than {} MiB, too large for a configuration", kLongestFile >> 20));
    return text;
  }

  void report_root(const Node& node) {
    const size_t colon = node.text().find(':');
    if (node.is_scalar() && !node.quoted() && colon != std::string::npos && colon > 0 &&
        colon + 1 < node.text().size()) {
      const size_t end = std::min(node.text().find(' ', colon), node.text().size());
      diagnostics_.error(node.mark(),
                         fmt::format("`{}` has no blank after the colon", node.text().substr(0, end)),
                         fmt::format("write `{}: {}`", node.text().substr(0, colon),
                                     node.text().substr(colon + 1, end - colon - 1)));
    } else {
      diagnostics_.error(node.mark(),
                         fmt::format("a configuration is a map of sections, not {}", node.describe()),
                         "write for example `train: {steps: 100}`");
    }
  }

  std::vector<Source> included(const Node& node, const std::string& path) {
    std::vector<Source> result;
    const Node* include = node.find("include");
    if (!include) return result;
    const std::vector<Node> one = {*include};
    for (const Node& entry : include->is_list() ? include->elements() : one) {
      if (!entry.is_scalar() || entry.text().empty()) {
        diagnostics_.error(entry.mark(), fmt::format("`include` is a path or a list of paths, not {}",
                                                     entry.is_scalar() ? "an empty text" : entry.describe()));
        result.push_back({Node::map({}).as_incomplete(), {}});
        continue;
      }
      const fs::path target = (fs::path(path).parent_path() / expand_home(entry.text())).lexically_normal();
      result.push_back(load(target.string(), entry.mark()));
    }
    return result;
  }

  const Rules& rules_;
  Diagnostics& diagnostics_;
  std::vector<std::string> open_;       ///< canonical paths of the chain of includes
  std::vector<std::string> names_;      ///< the same paths as they are written
  std::map<std::string, Node> shared_;  ///< `shared_layout` of each file
  int files_ = 0;                       ///< number of files so far
};

/// Reports a variable that an argument sets, but that the files neither set (`of_files`) nor use: its name may be
/// mistyped, and a resolved configuration has no variables.
void check_set_variables(const Node& vars, const Node& of_files, std::set<std::string> used,
                         Diagnostics& diagnostics) {
  used.merge(references(vars));
  for (const Entry& entry : vars.entries()) {
    if (used.contains(entry.key) || of_files.entry(entry.key)) continue;
    std::vector<std::string> known(used.begin(), used.end());
    diagnostics.error(entry.mark, fmt::format("nothing uses the variable `{}`", entry.key),
                      known.empty()
                          ? fmt::format("no file refers to `${}`: set the key that holds the value, such "
                                        "as `train.batch_size=100`",
                                        entry.key)
                          : did_you_mean(entry.key, known));
  }
}

/// True for an argument such as `vars.name=value`.
bool sets_variables(std::string_view argument) {
  return argument.substr(0, argument.find_first_of(".+=")) == kVars;
}

/// The arguments of a command line; `files` stand in front of them.
class Arguments {
 public:
  Arguments(const std::vector<std::string>& texts, size_t files, const Rules& rules, Diagnostics& diagnostics)
      : texts_(texts), files_(files), rules_(rules), diagnostics_(diagnostics) {
    for (size_t i = 0; i < texts.size(); ++i) diagnostics.add_source(mark(i).file);
  }

  /// Applies those that set variables, or all others.
  Node apply(Node root, bool to_variables, VariableOpener& variables) const {
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (sets_variables(texts_[i]) == to_variables)
        root = apply_argument(root, texts_[i], mark(i), diagnostics_, rules_, &variables);
    }
    return root;
  }

 private:
  Mark mark(size_t index) const { return {fmt::format("argument {}", files_ + index + 1), 0, 0, 1, {}}; }

  const std::vector<std::string>& texts_;
  size_t files_;
  const Rules& rules_;
  Diagnostics& diagnostics_;
};

Node variables_of(const Node& root) {
  const Entry* vars = root.entry(kVars);
  return vars ? vars->value : Node();
}

/// Merges the files, of which `source` has `count`, applies the arguments and resolves variables. Variables are merged
/// first: what others merge into is their value in the end.
Node merge_all(const FileLoader& loader, const Source& source, size_t count,
               const std::vector<std::string>& texts, Diagnostics& diagnostics, const Rules& rules) {
  const Arguments arguments(texts, count, rules, diagnostics);
  VariableOpener unknown(std::nullopt, rules.deferred, diagnostics);
  const Node vars_of_files = merged(source, only_variables, rules, unknown);
  const Node vars = variables_of(arguments.apply(vars_of_files, true, unknown));
  VariableOpener opener(vars, rules.deferred, diagnostics);
  Node root = arguments.apply(merged(source, without_variables, rules, opener), false, opener);
  if (!root.incomplete()) {
    std::set<std::string> used = opener.opened();
    used.merge(references(root));
    check_set_variables(vars, variables_of(vars_of_files), std::move(used), diagnostics);
  }
  if (const std::vector<std::string> shared = loader.shared_dimensions(root); !shared.empty()) {
    std::vector<Node> names;
    for (const std::string& name : shared) names.push_back(Node::scalar(name, {}, true));
    root = root.with({std::string(kSharedLayout), {}, Node::list(std::move(names))});
  }
  return resolve(root, resolve_variables(vars, diagnostics), rules.deferred, diagnostics);
}

}  // namespace

Node load(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
          Diagnostics& diagnostics, const Rules& rules) {
  Source source{Node::map({}, files.empty() ? Mark{} : Mark{files.front(), 0, 0, 1, {}}), {}};
  FileLoader loader(rules, diagnostics);
  for (const std::string& file : files) source.included.push_back(loader.load(file, {}));
  return merge_all(loader, source, files.size(), arguments, diagnostics, rules);
}

Node load_text(const std::string& text, const std::string& name, const std::vector<std::string>& arguments,
               Diagnostics& diagnostics, const Rules& rules) {
  FileLoader loader(rules, diagnostics);
  const Source source{loader.root_of(text, name), {}};
  return merge_all(loader, source, 1, arguments, diagnostics, rules);
}

}  // namespace mtf::config
