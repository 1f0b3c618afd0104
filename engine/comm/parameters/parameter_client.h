// A worker's connections to the parameter servers.
//
//   ParameterClient client({.servers = {"10.0.0.1:2222"}, .worker = 1, .fields = {{"program", hash}}});
//   client.pull(step, {{.server = 0, .id = 3, .memory = weight}, ...});
//   client.push(0, 0, step, gradient);
//
// Every call throws Error: kPeerLost with the name of the server if it is lost or does not answer in time, or
// with the server's message if the run has failed; kConfig if this process differs from the server, has
// another secret or the task of a worker that lives; kDiverged if the updates of asynchronous workers are no longer finite.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/parameters/framed_socket.h"
#include "engine/comm/parameters/parameter_protocol.h"

namespace mtf {

struct ParameterClientOptions {
  std::vector<std::string> servers;  ///< host:port of each task
  Access access = {};
  int worker = 0;
  ParameterFields fields;
  std::chrono::milliseconds connect_timeout{300'000};
  std::chrono::milliseconds collective_timeout{600'000};
};

/// A variable on a server, with the memory into which it is copied.
struct PulledVariable {
  int server = 0;
  uint32_t id = 0;
  std::span<std::byte> memory;
};

/// Statistics of asynchronous training.
struct StalenessReport {
  std::vector<int64_t> updates;  ///< number of updates with each staleness
  int64_t dealt_again = 0;       ///< number of batches of lost workers
};

class ParameterClient {
 public:
  /// Connects to all servers; throws if `fields` differ from a server's.
  explicit ParameterClient(const ParameterClientOptions& options);

  int servers() const { return static_cast<int>(servers_.size()); }

  /// For the chief: sets a variable, which began with its initial value at step `begin` of the run; start() says that all
  /// variables are set.
  void set(int server, uint32_t id, std::span<const std::byte> value, int64_t begin = 0);
  void start(const ParameterStart& start);
  /// For the other workers: pull() waits until the chief has set the variables once more.
  void await_start() { ++starts_; }

  /// Copies variables as they are after at least `version` updates. Returns the state of server 0.
  PulledState pull(int64_t version, const std::vector<PulledVariable>& variables);
  /// Sends tensor `index` of those for `server`; they must be sent in order.
  void push(int server, uint32_t index, int64_t version, std::span<const std::byte> tensor);

  /// For the chief of synchronous training. squares() returns the sums of squares of each server's gradients;
  /// update() starts the update of a version, which is complete when the next version can be pulled.
  std::vector<std::vector<double>> squares(int64_t version);
  void update(const ParameterStep& step, std::span<const double> squares);

  /// For asynchronous training. next() returns a batch (row -1: the run has ended); commit() makes the gradients
  /// that were pushed the next update at all servers, or at none if this worker dies before server 0 has
  /// decided.
  DealtBatch next();
  Committed commit(const ParameterStep& step, std::span<const double> squares);
  /// For the chief of asynchronous training. pause() waits until no worker has a batch, and stops new batches
  /// until resume(). If a lost worker's batch is returned, the chief must process it first.
  DealtBatch pause();
  void resume();
  StalenessReport staleness();

  /// Tells the servers that this worker has completed the run.
  void leave();

 private:
  struct Server {
    int task;
    std::string address;
    FramedSocket socket;
  };

  static std::string name_of(const Server& server);
  [[noreturn]] static void wrong_size(const Server& server, uint64_t bytes);
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
  template <class T>
  T decided(ParameterOperation operation);
  DealtBatch batch(ParameterOperation operation);
  void ask_all(ParameterOperation operation, std::span<const std::byte> bytes = {});

  std::chrono::milliseconds answer_timeout_;
  std::chrono::milliseconds collective_timeout_;
  std::vector<Server> servers_;
  uint32_t starts_ = 0;  ///< number of starts of the chief that this worker knows of
  int64_t batch_ = 0;    ///< number of the batch that server 0 has dealt last
};

}  // namespace mtf
