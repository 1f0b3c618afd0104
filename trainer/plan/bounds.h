// Lower bounds of what every completion of an unfinished layout costs, from the step on one position: an operation is
// at best divided among all processes along whose mesh dimensions one of its dimensions is split, or still may be (the
// positions of a process share its cores); the gradient of a weight is reduced over the mesh dimensions that split what
// it is summed over.
//
// The stages of a pipeline share out all work at best evenly. Each of them also waits while its first microbatch comes
// through the chunks before it and while its last one goes back, with as many blocks in each as the evenest placement has.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/spmd/program.h"
#include "engine/spmd/work.h"
#include "trainer/plan/dimensions.h"
#include "trainer/plan/search.h"

namespace mtf {

struct BoundRates {
  std::function<double(const Work& work)> seconds;  ///< that a process needs at least for one execution
  int64_t hosted = 1;                               ///< positions of a process, which are consecutive
  double step = 0;                                  ///< seconds of each step besides
  double link = 0;                                  ///< bytes that a process sends in a second, at most
  int links = 1;                                    ///< levels of links between processes
  int64_t microbatches = 1;                         ///< at most so many go through the stages of a pipeline
};

/// The rules of variables at rest that are still to be found, besides the layout.
struct OpenRules {
  bool parameter = false, optimizer = false;
};

class LayoutBounds {
 public:
  LayoutBounds(const SplittableDimensions& dimensions, BoundRates rates, const OpenRules& open)
      : dimensions_(dimensions), rates_(std::move(rates)), open_(open) {}

  /// Adds `weight` times a step, which on one position is `program`. `trained` are the names of weights that have
  /// gradients.
  void add(const Graph& step, const Program& program, const std::set<std::string>& trained,
           double weight = 1);

  /// Seconds of a step.
  double seconds(const std::vector<SearchAxis>& axes) const;
  /// Bytes of the variables on one position.
  double variable_bytes(const std::vector<SearchAxis>& axes) const;
  /// Mesh dimensions over which the gradients of some weights are summed.
  std::vector<bool> sums_gradients(const SplitChoice& chosen) const;

 private:
  struct Item {
    DimensionSet dimensions;
    double amount = 0;      ///< seconds, or bytes
    bool is_free = false;   ///< rules that are still to be found may split it over any mesh dimension
    bool is_block = false;  ///< products of a block, which each microbatch needs
  };
  struct Gradient {
    DimensionSet dimensions, summed;
    double bytes = 0;
  };
  void add_work(const Program& program, WorkFinder& works, const std::vector<Instruction>& block,
                const std::set<std::string>& blocks, double times);
  void add_gradients(const Graph& step, const std::set<std::string>& trained, double weight);
  static void add(std::vector<Item>& items, const Item& item);

  /// The processes among which work with these dimensions is divided at best.
  double processes(const std::vector<SearchAxis>& axes, const DimensionSet& dimensions, bool is_free) const;
  /// Seconds of computation, which without a pipeline take `all`; `blocks` of them are products of blocks. Both are what a
  /// stage has of them on average.
  double with_stages(const std::vector<SearchAxis>& axes, double all, double blocks) const;

  std::vector<Item> work_, variables_;
  std::vector<Gradient> gradients_;
  double blocks_ = 0;  ///< blocks of the model
  const SplittableDimensions& dimensions_;
  const BoundRates rates_;
  const OpenRules open_;
};

}  // namespace mtf
