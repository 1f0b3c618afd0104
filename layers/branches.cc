#include <fmt/format.h>

#include "engine/ops/concat.h"
#include "layers/registry.h"

namespace mtf {
namespace {

struct BranchesOptions {
  config::Name along;
  config::Node paths;
};

void describe(config::Visitor& visit, BranchesOptions& options) {
  visit("along", options.along, "the dimension along which the results are joined", config::required);
  visit("paths", options.paths, "list of lists of layers", config::required);
}

class BranchesLayer final : public Layer {
 public:
  using Options = BranchesOptions;
  BranchesLayer(const Options& options, LayerParser& parser) : along_(options.along) {
    if (options.paths.is_null()) return;
    if (!options.paths.is_list() || options.paths.elements().empty()) {
      parser.diagnostics().error(options.paths.mark(), "`branches.paths` is not a list of paths",
                                 "write for example `paths: [[dense: ...], [dense: ..., activation: relu]]`");
      return;
    }
    for (const config::Node& path : options.paths.elements()) paths_.push_back(parse_path(path, parser));
  }

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    std::vector<LayerTensor> results;
    for (size_t i = 0; i < paths_.size(); ++i) {
      const auto scope = context.graph().scope(fmt::format("path_{}", i));
      results.push_back(paths_[i](context, x));
      if (i == 0) find_dimension(results[0], along_);
      if (!can_be_joined(results[0], results[i], along_.text)) {
        throw Error(
            ErrorKind::kConfig,
            fmt::format("branches: paths 0 and {} make {} and {}, which differ in more than the size of "
                        "`{}`",
                        i, results[0].shape().to_string(), results[i].shape().to_string(), along_.text),
            "all other dimensions must be the same in all");
      }
    }
    return LayerTensor(concat({results.begin(), results.end()}, along_.text)).made_from(results[0]);
  }

 private:
  /// An empty path passes x on.
  static LayerList parse_path(const config::Node& path, LayerParser& parser) {
    return path.is_list() && path.elements().empty() ? LayerList() : parser.parse(path);
  }

  config::Name along_;
  std::vector<LayerList> paths_;
};

const LayerRegistration<BranchesLayer> branches_registration(
    "branches", "y = concat(path_0(x), path_1(x), ...) along a dimension; an empty path is x itself");

}  // namespace
}  // namespace mtf
