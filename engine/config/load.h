// Loads YAML files and `key=value` arguments into one tree. Includes, files and arguments are merged in this
// order, so that the later one wins; then variables are resolved.
//
//   Diagnostics diagnostics;
//   const Node root =
//       load({"mnist.yaml", "data_parallel.yaml"}, {"train.steps=100", "layout.hidden=cols"}, diagnostics);
//   const Options options = parse<Options>(root, diagnostics);   // schema.h
//   diagnostics.throw_if_errors();
//
// Maps are merged by key; lists and scalars are replaced; null resets a key to its default. A map whose
// `type` changes is replaced completely, and so are the sections that `Rules` names. A value that is only a variable is
// merged as its value, the one that the variable has in the end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/node.h"

namespace mtf::config {

class VariableOpener;

/// The keys of the language that are merged in a special way.
struct Rules {
  /// Top-level keys that are replaced completely. A text "a:b;c:d" at such a key becomes a map, so that paths
  /// such as `layout.hidden=cols` apply to it.
  std::vector<std::string> replaced_whole = {"mesh", "devices", "layout", "parameter_layout",
                                             "optimizer_layout"};
  /// The sections with layout rules, to which `shared_layout` applies.
  std::vector<std::string> layouts = {"layout", "parameter_layout", "optimizer_layout"};
  /// In the values of the map at this path, `$names` stay unresolved until substitute().
  std::vector<std::string> deferred = {"model", "blocks"};
};

/// Loads and merges `files` (each with its includes), then `arguments`, then resolves `$names` with `vars`.
/// The result is a map without `include` and `vars`. `shared_layout` (true, or a list of dimensions) applies
/// to the layout rules of the file that contains it; in the result it is the list of all dimensions whose
/// rules are shared. All errors are added to `diagnostics`; the result is then as complete as possible. The
/// place of an argument is "argument N", its number on the command line, where the files are counted first.
Node load(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
          Diagnostics& diagnostics, const Rules& rules = {});

/// Does the same for one text, which has no includes, instead of files. `name` is the name of the text in
/// messages.
Node load_text(const std::string& text, const std::string& name, const std::vector<std::string>& arguments,
               Diagnostics& diagnostics, const Rules& rules = {});

/// Parses one YAML document. `file` is its name in messages. Duplicate keys, `<<`, keys without a blank after
/// the colon, tags, and a second document are errors. An empty text is null. JSON is YAML; its escapes are known, too.
Node parse_yaml(std::string_view given, const std::string& file, Diagnostics& diagnostics);

/// Merges `over` into `base`: maps are merged by key, everything else is replaced. A null also replaces; it
/// stays in the tree and stands for the default. `variables` opens values that are only a variable; without it, they
/// are texts.
Node merge(const Node& base, const Node& over, VariableOpener* variables = nullptr);

/// Applies one `key=value` or `key+=value`. A path addresses entries of a list by index, by `name`, or by
/// layer (then all entries of that layer); it is an error if none matches. `mark.file` is the name of the
/// argument ("argument 3"). A list that is appended to where nothing sets the key extends its default, and a null that
/// meets no entry removes nothing: the schema treats both. `variables` is as for merge().
Node apply_argument(const Node& root, std::string_view argument, const Mark& mark, Diagnostics& diagnostics,
                    const Rules& rules = {}, VariableOpener* variables = nullptr);

/// Resolves `$name`, `${expression}` and `$$` in the values and keys of `node`: first from `arguments` (a
/// map), then from the variables of the configuration, which deferred nodes carry. An unknown name is an
/// error.
Node substitute(const Node& node, const Node& arguments, Diagnostics& diagnostics);

/// Returns the variables to which deferred texts in `node` still refer, as a map: a dump of `node` needs them
/// as its `vars`.
Node deferred_variables(const Node& node);

/// Returns YAML text from which parse_yaml() and substitute() read the same values.
std::string to_yaml(const Node& node);
/// The same on one line: "{steps: 100, tensors: [a, b]}".
std::string to_flow_yaml(const Node& node);

}  // namespace mtf::config
