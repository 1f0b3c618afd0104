// DecodeStage is the two programs of decoding for given sizes, with their key-value caches. A batch goes from stage to
// stage as its texts grow and end. Texts that enter it have a stage of their own, which reads them.
//
//   DecodeMemory memory(session, threads);
//   DecodeStage first(programs, weights, plan, memory);
//   first.prefill().feed(...); first.prefill().run(0);              // fills the caches
//   first.step().feed(...); first.step().run(0);                    // one token per hypothesis
//   DecodeStage next(programs, weights, fewer_texts, memory, CachePlace::after(first, fewer_texts));
//   next.take(first, rows, filled);
//   DecodeStage more(programs, weights, entering, memory, CachePlace::beside(next), StageUse::kEnters);
//   more.prefill().feed(...); more.prefill().run(0);
//   next.take(more, rows, filled);
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "engine/runtime/executor.h"
#include "engine/runtime/variable_store.h"
#include "engine/runtime/workspace.h"
#include "trainer/decode/cache_rows.h"
#include "trainer/decode/programs.h"

namespace mtf {

/// What the stages of a Decoder share, since one of them runs at a time: threads, temporaries, and memory for the caches of two
/// stages, from one of which the other takes rows.
struct DecodeMemory {
  DecodeMemory(const Session& session, int threads);

  /// Memory for caches with elements of a type.
  std::shared_ptr<DeviceMemory> caches(size_t half, DType dtype, int64_t bytes);
  /// The bytes that programs need of this memory.
  struct Need {
    int64_t temporaries = 0, scratch = 0, caches = 0;  ///< scratch: of one thread
    void add(const DecodeProgram& program) {
      temporaries = std::max(temporaries, program.temporary_bytes);
      scratch = std::max(scratch, program.scratch_bytes);
      caches = std::max(caches, program.cache_bytes);
    }
  };
  /// True if that is more than there is.
  bool grows(size_t half, const Need& need) const;
  /// Gets what programs need besides caches at once, in place of a part for each program.
  void reserve(const Need& need);
  int64_t scratch_bytes(const Need& need) const { return workspace.pool.threads() * need.scratch; }

  Backend& backend;
  Workspace workspace;
  std::array<std::map<DType, SharedMemory>, 2> halves;
};

class DecodeStage;

/// Where the caches of a stage lie; by default, where those of the first stage of a batch do.
struct CachePlace {
  size_t half = 0;                      ///< of the memory for caches
  const DecodeStage* within = nullptr;  ///< the stage whose first rows they are

  /// For a stage of these sizes that takes the rows of `before`: fewer texts stay where they are, caches of other lengths need
  /// the other half.
  static CachePlace after(const DecodeStage& before, const DecodePlan& plan);
  /// For a stage whose texts enter `stage`.
  static CachePlace beside(const DecodeStage& stage);
};

enum class StageUse {
  kSteps,   ///< writes tokens, and reads texts for that
  kEnters,  ///< reads texts whose rows another stage takes: has no step()
};

class DecodeStage {
 public:
  /// `programs`, `weights` and `memory` must outlive the stage; its caches are in use from take() or prefill() until those of
  /// another stage in this half are.
  DecodeStage(DecodePrograms& programs, VariableStore& weights, const DecodePlan& plan, DecodeMemory& memory,
              const CachePlace& place = {}, StageUse use = StageUse::kSteps);

  const DecodePlan& plan() const { return plan_; }
  size_t half() const { return half_; }
  /// The bytes of memory that the stage does not share.
  int64_t bytes() const { return bytes_; }
  bool has_prefill() const { return prefill_ != nullptr; }
  /// The program with the inputs `inputs` (with an encoder), `prefix`, `position` and `prompt`. It is made by
  /// the first call.
  Executor& prefill();
  /// The program with the inputs `token`, `position`, `shared_prefix` if texts have several hypotheses, and `parent` and
  /// `common` if the plan reorders.
  Executor& step() { return *step_; }
  /// Moves cache rows here from another stage, and of hypotheses their first `filled` tokens. It must have the same beam, and
  /// inputs that are not shorter.
  void take(const DecodeStage& other, std::span<const MovedRow> rows, int64_t filled);

 private:
  std::unique_ptr<Executor> executor(Program program, VariableStore& variables);

  DecodePrograms& programs_;
  VariableStore& weights_;
  DecodePlan plan_;
  DecodeMemory& memory_;
  size_t half_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<VariableStore> prefill_variables_;  ///< with caches that the steps do not read
  std::unique_ptr<Executor> prefill_, step_;
  int64_t bytes_ = 0;
};

}  // namespace mtf
