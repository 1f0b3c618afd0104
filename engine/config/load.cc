#include "engine/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/config/types.h"
#include "engine/config/variables.h"

namespace mtf::config {
namespace {

namespace fs = std::filesystem;

/// merge() with the sections that are replaced whole.
Node merge_roots(const Node& base, const Node& over, const Rules& rules) {
  Node start = base;
  for (const std::string& key : rules.replaced_whole) {
    if (over.entry(key)) start = start.without(key);
  }
  return merge(start, over);
}

class FileLoader {
 public:
  FileLoader(const Rules& rules, Diagnostics& diagnostics) : rules_(rules), diagnostics_(diagnostics) {}

  /// The file with its includes below it. `where`: the `include` that names it.
  Node load(const std::string& path, const Mark& where) {
    const std::string canonical = fs::weakly_canonical(path).string();
    if (std::find(open_.begin(), open_.end(), canonical) != open_.end()) {
      diagnostics_.error(where, fmt::format("`{}` includes itself", path));
      return Node::map({});
    }
    const std::optional<std::string> text = read(path, where);
    if (!text) return Node::map({}).as_incomplete();
    const Node node = parse_yaml(*text, path, diagnostics_);
    if (node.is_null()) return node.incomplete() ? Node::map({}).as_incomplete() : Node::map({});
    if (!node.is_map()) {
      report_root(node);
      return Node::map({}).as_incomplete();
    }
    open_.push_back(canonical);
    const Node result = merge_roots(included(node, path), node.without("include"), rules_);
    open_.pop_back();
    return result;
  }

 private:
  std::optional<std::string> read(const std::string& path, const Mark& where) {
    const Mark mark = where.known() ? where : Mark{path, 0, 0, 1, {}};
    const auto fail = [&](std::string_view reason) {
      diagnostics_.error(mark, where.known() ? fmt::format("`{}`: {}", path, reason) : std::string(reason));
      return std::nullopt;
    };
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return fail("is a directory, not a YAML file");
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(errno == ENOENT ? "there is no such file" : std::strerror(errno));
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (file.bad()) return fail("cannot be read");
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

  Node included(const Node& node, const std::string& path) {
    Node result = Node::map({}, node.mark());
    const Node* include = node.find("include");
    if (!include) return result;
    const std::vector<Node> one = {*include};
    for (const Node& entry : include->is_list() ? include->elements() : one) {
      if (!entry.is_scalar()) {
        diagnostics_.error(entry.mark(),
                           fmt::format("`include` is a path or a list of paths, not {}", entry.describe()));
        continue;
      }
      const fs::path target = fs::path(path).parent_path() / expand_home(entry.text());
      result = merge_roots(result, load(target.string(), entry.mark()), rules_);
    }
    return result;
  }

  const Rules& rules_;
  Diagnostics& diagnostics_;
  std::vector<std::string> open_;
};

}  // namespace

Node load(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
          Diagnostics& diagnostics, const Rules& rules) {
  Node root = Node::map({}, files.empty() ? Mark{} : Mark{files.front(), 0, 0, 1, {}});
  FileLoader loader(rules, diagnostics);
  for (const std::string& file : files) root = merge_roots(root, loader.load(file, {}), rules);
  size_t number = files.size();
  for (const std::string& argument : arguments) {
    const Mark mark{fmt::format("argument {}", ++number), 0, 0, 1, {}};
    root = apply_argument(root, argument, mark, diagnostics, rules);
  }
  const Entry* vars = root.entry("vars");
  const auto variables = resolve_variables(vars ? vars->value : Node(), diagnostics);
  return resolve(root.without("vars"), variables, rules.deferred, diagnostics);
}

}  // namespace mtf::config
