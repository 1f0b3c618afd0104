// A worker's connections with the parameter servers.
//
//   ParameterClient client({.servers = {"10.0.0.1:2222"}, .worker = 1, .fields = {{"program", hash}}});
//   client.pull(step, {{.server = 0, .id = 3, .memory = weight}, ...});
//   client.push(0, 0, step, gradient);
//
// Every call throws Error: kPeerLost that names the server when it is lost or does not answer within the
// time, or with the server's words when the run has failed; kConfig when this process differs from the
// server or has another secret; kDiverged when the updates of asynchronous workers are no longer finite.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/parameters/framed_socket.h"
#include "engine/comm/parameters/parameter_protocol.h"

namespace mtf {

struct ParameterClientOptions {
  std::vector<std::string> servers;  ///< host:port by task
  Access access = {};
  int worker = 0;
  ParameterFields fields;
  std::chrono::milliseconds connect_timeout{300'000};
  std::chrono::milliseconds collective_timeout{600'000};
};

/// A variable on a server and the memory that it goes to.
struct PulledVariable {
  int server = 0;
  uint32_t id = 0;
  std::span<std::byte> memory;
};

/// What asynchronous training was like.
struct StalenessReport {
  std::vector<int64_t> updates;  ///< by staleness
  int64_t dealt_again = 0;       ///< batches of lost workers
};

class ParameterClient {
 public:
  /// Connects to all servers; a mismatch of `fields` is found here.
  explicit ParameterClient(const ParameterClientOptions& options);

  int servers() const { return static_cast<int>(servers_.size()); }

  /// The chief: sets a variable, and says that all are set.
  void set(int server, uint32_t id, std::span<const std::byte> value);
  void start(const ParameterStart& start);
  /// Another worker: what is pulled from now on is of the next start of the chief, or later.
  void await_start() { ++starts_; }

  /// Variables as they are after `version` updates or more; the state is that of server 0.
  PulledState pull(int64_t version, const std::vector<PulledVariable>& variables);
  /// Tensor `index` of those that go to `server`, in order.
  void push(int server, uint32_t index, int64_t version, std::span<const std::byte> tensor);

  /// Synchronous, the chief: the sums of squares of each server's gradients, and the update of a version,
  /// which is done when the next one can be pulled.
  std::vector<std::vector<double>> squares(int64_t version);
  void update(const ParameterStep& step, std::span<const double> squares);

  /// Asynchronous: a batch (row -1: the run has ended), and the update with the gradients that were pushed.
  DealtBatch next();
  Committed commit(const ParameterStep& step, std::span<const double> squares);
  /// Asynchronous, the chief: waits until no worker has a batch, and stops new ones until resume(). A batch
  /// that comes back (of a worker that was lost) is to be done first.
  DealtBatch pause();
  void resume();
  StalenessReport staleness();

  /// The run has ended well for this worker.
  void leave();

 private:
  struct Server {
    int task;
    std::string address;
    FramedSocket socket;
  };

  static std::string name_of(const Server& server);
  [[noreturn]] void refused(Server& server, const Frame& frame);
  Server* lost_beside(const Server& server);
  template <class Action>
  auto with(Server& server, const Action& action);
  void ask(Server& server, const Frame& frame, std::span<const std::byte> bytes = {});
  void ask(Server& server, ParameterOperation operation, std::span<const std::byte> bytes = {});
  Frame answer(Server& server, ParameterOperation operation);
  std::vector<std::byte> answer_bytes(Server& server, ParameterOperation operation);
  template <class T>
  T answer_value(Server& server, ParameterOperation operation);
  DealtBatch batch(ParameterOperation operation);
  void ask_all(ParameterOperation operation, std::span<const std::byte> bytes = {});

  std::chrono::milliseconds answer_timeout_;
  std::chrono::milliseconds collective_timeout_;
  std::vector<Server> servers_;
  uint32_t starts_ = 0;  ///< of the chief, that this worker knows of
};

}  // namespace mtf
