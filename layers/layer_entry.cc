#include "layers/layer_entry.h"

#include <fmt/format.h>

namespace mtf {

LayerEntry layer_entry(const config::Node& node, Diagnostics& diagnostics) {
  if (node.is_scalar()) return {node.text(), node.mark(), config::Node::null(node.mark())};
  if (node.is_map() && node.entries().size() == 1) {
    const config::Entry& entry = node.entries().front();
    return {entry.key, entry.mark, entry.value.is_null() ? config::Node::null(entry.mark) : entry.value};
  }
  if (node.is_map() && node.entries().size() > 1) {
    const config::Entry& second = node.entries()[1];
    diagnostics.error(
        second.mark, fmt::format("`{}` is a second name in one layer", second.key),
        fmt::format("write `- {}: {{{}: ...}}`: options stand below the layer's name, each layer in an entry "
                    "of its own",
                    node.entries().front().key, second.key));
  } else {
    diagnostics.error(node.mark(),
                      fmt::format("a layer is `name` or `{{name: {{options}}}}`, not {}", node.describe()));
  }
  return {{}, node.mark(), config::Node::null(node.mark())};
}

}  // namespace mtf
