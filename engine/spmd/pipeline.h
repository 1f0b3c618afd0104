// How the layers of a model are placed on the stages of a pipeline: the positions with one coordinate along one mesh
// dimension. What stands together on a stage without a break is a chunk; with several rounds a stage has several chunks.
//
//   layouts.pipeline = Pipeline{.mesh_dimension = "stages", .rounds = 2};   // the blocks of the model, evenly
//   check_pipeline(graph, layouts, diagnostics);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/mesh.h"

namespace mtf {

/// The order of the forward and backward passes of microbatches.
enum class PipelineSchedule {
  k1F1B,  ///< a backward pass as soon as there is one: activations of at most as many microbatches as there are chunks
  kGPipe,  ///< all forward passes, then all backward passes
};

/// What programs of a run have found out so far, which those after them follow.
struct PlacedChunks {
  std::vector<int64_t> stages;           ///< the stage of each chunk, in the order of the forward pass
  std::map<std::string, int> units;      ///< the chunk of each Unit, by name
  std::map<std::string, int> variables;  ///< the chunk whose stage has the variable, by name; -1: all have it
};

struct Pipeline {
  std::string mesh_dimension;
  int rounds = 1;  ///< chunks of a stage
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  /// By stage: names of units, or of several ("block_0..3"). Empty: the blocks lie evenly on the chunks, other units beside
  /// the block before them.
  std::map<int64_t, std::vector<std::string>> placement = {};
  Mark mark = {};  ///< where the configuration asks for it
  std::shared_ptr<PlacedChunks> placed = std::make_shared<PlacedChunks>();

  /// The mesh dimension of the stages, and their number.
  int axis(const Mesh& mesh) const { return *mesh.shape().find(mesh_dimension); }
  int64_t stages(const Mesh& mesh) const { return mesh.size(axis(mesh)); }
  /// The positions of a chunk.
  Pin pin(const Mesh& mesh, int chunk) const {
    return {axis(mesh), placed->stages[static_cast<size_t>(chunk)]};
  }
};

}  // namespace mtf
