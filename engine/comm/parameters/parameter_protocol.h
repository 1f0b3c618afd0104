// The protocol between workers and parameter servers (parameter_client.h, parameter_service.h). A worker
// sends a request; the server answers with the same operation, or with kError and a text. Errors in requests
// that have no answer are reported in the answer to the next request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mtf {

enum class ParameterOperation : uint16_t {
  kHello = 1,  ///< JSON {worker, fields}; id = number of the worker
  kSet,        ///< one variable, from the chief; version = the step at which it began; no answer
  kStart,      ///< ParameterStart: all variables are set
  /// Requests variables (uint32 ids) of at least this version, after the `id`-th start of the chief. The
  /// answer is a PulledState, then a kVariable for each.
  kPull,
  kVariable,
  kPush,  ///< a tensor that is a part of the gradients of this version; no answer
  /// Synchronous, chief: requests the sums of squares (float64) of this version's gradients, once all have
  /// come.
  kSquares,
  /// Synchronous, chief: ParameterStep and the squares of all gradients; completes the version; no answer.
  kUpdate,
  /// Asynchronous, server 0: requests a batch. The answers to kNext, kCommit and kPause have after their value
  /// all Decisions that other servers may lack; the worker passes these on before it asks for anything else.
  kNext,
  /// Asynchronous, other servers: ParameterStep and squares, which the server keeps with what was pushed until
  /// server 0 has decided; version = number of the batch.
  kStage,
  /// Asynchronous, server 0: ParameterStep and squares. All other servers have this batch's gradients: server 0
  /// decides which update they are, and applies what was pushed. The answer is Committed.
  kCommit,
  kApply,  ///< asynchronous, other servers: Decisions, which are carried out; no answer
  /// Asynchronous, chief: the answer is a DealtBatch without a batch once no worker has one, or with a batch
  /// to process first.
  kPause,
  kResume,
  /// Asynchronous: requests the number of updates with each staleness, then of batches dealt again (int64
  /// each).
  kReport,
  kLeave,  ///< the worker has completed the run
  kError,  ///< an error message
};

/// Sent by the chief when all variables are set.
struct ParameterStart {
  int64_t step = 0;
  int64_t next_row = 0;
  int64_t last_step = -1;  ///< -1: the chief decides later when the run ends
  int64_t tokens = 0;
  double rate_scale = 1;
};

/// The data of an update besides gradients.
struct ParameterStep {
  int64_t step = 0;  ///< synchronous: number of the update, from 0
  double loss = 0;
  int64_t tokens = 0;  ///< number of tokens in the batch
};

/// The state after the last update.
struct PulledState {
  int64_t step = 0;  ///< number of updates so far
  int64_t next_row = 0;
  int64_t tokens = 0;
  double loss = 0;
  double grad_norm = 0;
  int64_t finite = 1;
  int64_t stop_signal = 0;  ///< the signal that asked the server, and thereby the run, to stop; 0: none
};

struct DealtBatch {
  int64_t row = -1;    ///< first row; -1: there is no batch
  int64_t number = 0;  ///< batches are numbered as they are dealt; one that is dealt again has another number
  int64_t step = 0;    ///< number of updates so far
  int64_t next_row = 0;
  int64_t tokens = 0;
  double loss = 0;  ///< loss of the last update
  double grad_norm = 0;
};

struct Committed {
  int64_t step = 0;  ///< number of this update, from 0
  int64_t staleness = 0;
  int64_t next_row = 0;
  int64_t tokens = 0;
  double grad_norm = 0;
  /// Number of successive updates of all workers, up to and including this one, whose values were not finite,
  /// so that they changed nothing; 0 if this one is finite.
  int64_t skipped = 0;
};

/// Server 0 decides which update of the run a batch is. The other servers follow.
struct Decision {
  int64_t step = 0;   ///< number of the update, from 0
  int64_t batch = 0;  ///< DealtBatch::number
};

/// Returns a message that consists of a value and further bytes after it.
template <class T>
std::vector<std::byte> message_of(const T& value, std::span<const std::byte> more = {}) {
  std::vector<std::byte> bytes(sizeof(T) + more.size());
  std::memcpy(bytes.data(), &value, sizeof(T));
  std::ranges::copy(more, bytes.begin() + sizeof(T));
  return bytes;
}

/// Names and values that must be the same for a worker and a server.
using ParameterFields = std::vector<std::pair<std::string, std::string>>;

inline constexpr int kParameterProtocol = 5;

/// The purpose of connections to a parameter server.
inline constexpr const char* kParameterPurpose = "parameter server";

}  // namespace mtf
