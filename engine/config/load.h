// From files and `key=value` arguments to one tree: includes, files, arguments, then variables; the later one
// wins.
//
//   Diagnostics diagnostics;
//   const Node root =
//       load({"mnist.yaml", "data_parallel.yaml"}, {"train.steps=100", "layout.hidden=cols"}, diagnostics);
//   const Options options = parse<Options>(root, diagnostics);   // schema.h
//   diagnostics.throw_if_errors();
//
// Maps merge by key; lists and scalars replace; null returns a key to its default. A map whose `type` changes
// is replaced whole, and so are the sections that `Rules` names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/node.h"

namespace mtf::config {

/// Which keys of the language have a meaning for merging.
struct Rules {
  /// Top-level keys that are replaced whole. A text "a:b;c:d" there is a map for paths such as
  /// `layout.hidden=cols`.
  std::vector<std::string> replaced_whole = {"mesh", "devices", "layout", "parameter_layout",
                                             "optimizer_layout"};
  /// Sections with layout rules, which `shared_layout` is about.
  std::vector<std::string> layouts = {"layout", "parameter_layout", "optimizer_layout"};
  /// Below this path `$names` stay as they are until substitute().
  std::vector<std::string> deferred = {"model", "blocks"};
};

/// Loads and merges `files` (each with its includes), then `arguments`, then resolves `$names` with `vars`.
/// The result is a map without `include` and `vars`. `shared_layout` (true, or a list of dimensions) holds
/// for the layout rules of the file in which it stands; the result has the list of all dimensions whose rules
/// it covers. Everything that is wrong goes to `diagnostics`; the result is as complete as it can be. The
/// place of an argument is "argument N": its number on the command line, after the files.
Node load(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
          Diagnostics& diagnostics, const Rules& rules = {});

/// The same of one text without includes instead of files. `name`: of the text, in messages.
Node load_text(const std::string& text, const std::string& name, const std::vector<std::string>& arguments,
               Diagnostics& diagnostics, const Rules& rules = {});

/// One YAML document. `file` names it in messages. Duplicate keys, `<<`, keys without a blank after the
/// colon, tags, and a second document are errors. An empty text is null.
Node parse_yaml(std::string_view text, const std::string& file, Diagnostics& diagnostics);

/// `over` on top of `base`: maps merge by key, all else replaces (null too: it stays in the tree and means
/// the default).
Node merge(const Node& base, const Node& over);

/// Applies one `key=value` or `key+=value`. A path addresses entries of a list by index, by `name`, or by
/// layer (then all of that layer); no match is an error. `mark.file` is the argument's name ("argument 3").
Node apply_argument(const Node& root, std::string_view argument, const Mark& mark, Diagnostics& diagnostics,
                    const Rules& rules = {});

/// Resolves `$name`, `${expression}` and `$$` in `node`, keys included: from `arguments` (a map), then from
/// the variables of the configuration (which a deferred node carries). An unknown name is an error.
Node substitute(const Node& node, const Node& arguments, Diagnostics& diagnostics);

/// The variables that deferred texts in `node` still refer to, as a map: the `vars` that a dump of `node`
/// needs.
Node deferred_variables(const Node& node);

/// YAML text that parse_yaml + substitute read back to the same values.
std::string to_yaml(const Node& node);
/// The same in one line: "{steps: 100, tensors: [a, b]}".
std::string to_flow_yaml(const Node& node);

}  // namespace mtf::config
