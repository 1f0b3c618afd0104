// What workers and parameter servers say to each other (parameter_client.h, parameter_service.h). A worker
// asks, the server answers with the same operation, or with kError and a text. What is not answered fails
// with the answer to what comes next.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mtf {

enum class ParameterOperation : uint16_t {
  kHello = 1,  ///< JSON {worker, fields}: id = number of the worker
  kSet,        ///< one variable, from the chief; not answered
  kStart,      ///< ParameterStart: all variables are set
  kPull,  ///< ids of variables (uint32 each), of this version or later, since the chief has set them `id`
          ///< times; answered by a kVariable for each, after a PulledState
  kVariable,
  kPush,     ///< a tensor that belongs to the gradients of this version; not answered
  kSquares,  ///< sync, chief: sums of squares (float64) of the gradients of this version, once all have come
  kUpdate,   ///< sync, chief: ParameterStep and the squares of all gradients: the version is done; not
             ///< answered
  kNext,     ///< async: a batch to work on, DealtBatch
  kCommit,   ///< async: ParameterStep and squares: applies what was pushed; answered by Committed
  kDone,     ///< async: all servers have the last update of this worker; not answered
  kPause,    ///< async, chief: no batch is in hand any more: DealtBatch without a batch; or one to do first
  kResume,
  kReport,  ///< async: number of updates by staleness (int64 each), then the batches that were dealt again
  kLeave,   ///< the worker is done
  kError,   ///< a text
};

/// The chief's words when the variables are set.
struct ParameterStart {
  int64_t step = 0;
  int64_t next_row = 0;
  int64_t last_step = -1;  ///< -1: when the chief says so
  int64_t tokens = 0;
  double rate_scale = 1;
};

/// What an update needs besides gradients.
struct ParameterStep {
  int64_t step = 0;  ///< asynchronous: the number that server 0 gives; 0 when it is asked
  double loss = 0;
  int64_t tokens = 0;  ///< in the batch
};

/// Of the last update.
struct PulledState {
  int64_t step = 0;  ///< updates done
  int64_t next_row = 0;
  int64_t tokens = 0;
  double loss = 0;
  double grad_norm = 0;
  int64_t finite = 1;
  int64_t stop_signal = 0;  ///< that has asked the server, and so the run, to stop
};

struct DealtBatch {
  int64_t row = -1;  ///< the first; -1: there is none
  int64_t step = 0;  ///< updates done
  int64_t next_row = 0;
  int64_t tokens = 0;
  double loss = 0;  ///< of the last update
  double grad_norm = 0;
};

struct Committed {
  int64_t step = 0;  ///< that this update made, from 0
  int64_t staleness = 0;
  int64_t next_row = 0;
  int64_t tokens = 0;
  double grad_norm = 0;
  /// Updates of all workers in a row, this one the last, whose values were not finite, so that they changed
  /// nothing; 0: this one is finite.
  int64_t skipped = 0;
};

/// What a worker and a server must have in common: names and values.
using ParameterFields = std::vector<std::pair<std::string, std::string>>;

inline constexpr int kParameterProtocol = 3;

/// The purpose of connections with a parameter server.
inline constexpr const char* kParameterPurpose = "parameter server";

}  // namespace mtf
