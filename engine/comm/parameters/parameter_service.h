// A parameter server: it keeps variables, sends them to workers, and applies the gradients that workers push.
// A ParameterStorage does the arithmetic.
//
//   FramedListener listener({"10.0.0.1", 2222}, access, kParameterPurpose);
//   ParameterService service(std::move(listener), storage, options);
//   service.serve();                 // returns when the workers have left
//
// In synchronous training an update is computed from the gradients of all workers, when the chief (worker 0)
// asks for it. In asynchronous training each worker's gradient is an update of its own; server 0 deals the
// batches and decides on the order of the updates (batch_dealer.h); the others keep the gradients of a batch
// until a worker, not always the same one, brings the decision. So a worker that dies at any time leaves an
// update at all servers or at none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/parameters/batch_dealer.h"
#include "engine/comm/parameters/framed_socket.h"
#include "engine/comm/parameters/parameter_protocol.h"
#include "engine/comm/parameters/parameter_storage.h"

namespace mtf {

struct ParameterServiceOptions {
  int server = 0;  ///< task of this server
  int workers = 1;
  bool asynchronous = false;
  int64_t batch_size = 1;
  int64_t max_staleness = 8;
  /// Asynchronous: after this many successive updates, of any workers, that are not finite, the run has
  /// diverged.
  int64_t diverges_after = 1;
  size_t squares = 0;      ///< number of gradients of the run
  ParameterFields fields;  ///< must be the same at all workers
  std::chrono::milliseconds connect_timeout{300'000};
  std::chrono::milliseconds collective_timeout{600'000};
  std::function<void(const std::string& line)> log;  ///< called from any thread
  std::function<void()> prepare_thread;              ///< called in each thread that accesses tensors
  std::function<int()> stop_signal;                  ///< returns the signal that asks it to stop, or 0
};

class ParameterService {
 public:
  ParameterService(FramedListener listener, ParameterStorage& storage, ParameterServiceOptions options);
  ~ParameterService();
  ParameterService(const ParameterService&) = delete;
  ParameterService& operator=(const ParameterService&) = delete;

  int port() const { return listener_.port(); }
  /// Returns true when the run has ended and the workers have left, or false if a signal came before the
  /// chief; later signals are passed on to the workers with what they pull. Throws Error (kPeerLost) if
  /// workers do not connect in time, if the chief or, in synchronous training, any worker is lost; kDiverged
  /// if updates are no longer finite.
  bool serve();

 private:
  /// A connection. Only its own thread sends and receives.
  struct Peer {
    explicit Peer(FramedSocket connected) : socket(std::move(connected)) {}
    FramedSocket socket;
    int worker = -1;  ///< -1: it has not sent kHello
    bool has_left = false;
    std::string given_up;           ///< why its worker was given up for taking too long; empty: it was not
    bool is_done = false;           ///< its thread ends
    std::vector<PushedPart> parts;  ///< the tensors that it pushes in a step
    std::shared_ptr<PushedTensors> pushed = std::make_shared<PushedTensors>();
    size_t received = 0;  ///< number of tensors of the gradients that are not applied yet
    std::vector<std::vector<std::byte>> pulled;  ///< copies of variables, which others may update meanwhile
    std::thread thread;
  };
  /// Asynchronous: the gradients of a batch, and what the update needs besides them.
  struct Staged {
    int64_t batch = 0;
    ParameterStep step;
    std::vector<double> squares;
    std::shared_ptr<const PushedTensors> pushed;
  };
  using Lock = std::unique_lock<std::mutex>;

  // The life cycle of the service and its connections.
  void talk(Peer& peer);
  void greet(Peer& peer);
  void welcome(Peer& peer, int worker);
  void await_departure(Lock& lock, int worker);
  bool answer(Peer& peer, const Frame& frame);
  void leave(Peer& peer);
  void gone(Peer& peer, const std::string& reason);
  /// Ends the run with an error, which is sent to every worker. Only the first error counts.
  void fail(const Error& error);
  bool stops_unused();
  bool is_over(std::optional<std::chrono::steady_clock::time_point>& end);
  void collect_threads();
  Peer* find(int worker);
  std::string missing_workers();
  /// Logs the addresses that were not admitted, at a limited rate.
  void tell_refused();

  // Requests of both kinds of training (parameter_service_requests.cc).
  void set(Peer& peer, const Frame& frame);
  void start(Peer& peer, const Frame& frame);
  void pull(Peer& peer, const Frame& frame);
  void push(Peer& peer, const Frame& frame);
  /// Waits until `ready`. Throws Error (kPeerLost) if the run has failed, if the worker that waits has died, or
  /// with the text of `missing` after the timeout.
  void wait(Lock& lock, const Peer& peer, const std::function<bool()>& ready,
            const std::function<std::string()>& missing);
  /// Waits until `ready`, and calls `look` again and again meanwhile. Throws as wait() does, but for the timeout.
  void wait_while_connected(Lock& lock, const Peer& peer, const std::function<bool()>& ready,
                            const std::function<void()>& look);
  void answer_with(Peer& peer, ParameterOperation operation, const void* data = nullptr, size_t bytes = 0);
  void require_chief(const Peer& peer, const Frame& frame) const;
  /// Receives the bytes of a message: a value and, if `squares` is given, numbers after it.
  template <class T>
  T read(Peer& peer, const Frame& frame, std::vector<double>* squares = nullptr) {
    T value;
    read(peer, frame, std::as_writable_bytes(std::span(&value, 1)), squares);
    return value;
  }
  void read(Peer& peer, const Frame& frame, std::span<std::byte> value, std::vector<double>* squares);

  // Synchronous training (parameter_service_sync.cc).
  void begin_sums();
  void sum(size_t gradient, Lock& lock);
  bool all_added() const { return added_ == missing_.size(); }
  void send_squares(Peer& peer, const Frame& frame);
  void update(Peer& peer, const Frame& frame);
  std::string missing_gradients();

  // Asynchronous training (parameter_service_async.cc).
  void next(Peer& peer);
  Staged read_staged(Peer& peer, const Frame& frame);
  void stage(Peer& peer, const Frame& frame);
  void commit(Peer& peer, const Frame& frame);
  void carry_out(Peer& peer, const Frame& frame);
  void apply(int64_t step, const Staged& staged);
  Error divergence(const Peer& peer, const Committed& update, double loss) const;
  void pause(Peer& peer);
  void resume(Peer& peer);
  void report(Peer& peer);
  void wait_for_batches(Lock& lock, const Peer& peer, const std::function<bool()>& ready);
  void give_up_overdue();
  DealtBatch dealt(const std::optional<BatchDealer::Batch>& batch) const;
  /// Returns the bytes of a value, and after it the decisions that other servers may lack.
  template <class T>
  std::vector<std::byte> with_decisions(const T& value) const;
  bool is_first_server() const { return options_.server == 0; }

  FramedListener listener_;
  std::string refused_, foreign_;  ///< addresses that the last lines of the log named
  std::chrono::steady_clock::time_point told_{};
  ParameterStorage& storage_;
  const ParameterServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Peer> peers_;
  std::vector<std::string> addresses_;  ///< address of each worker that has connected
  int64_t starts_ = 0;                  ///< how often the chief has set the variables
  bool ended_ = false;                  ///< the chief has left
  int left_ = 0;                        ///< number of workers that have left
  std::optional<Error> failure_;
  int64_t skipped_ = 0;  ///< asynchronous: number of last updates in a row that were not finite
  double rate_scale_ = 1;
  PulledState state_;            ///< after the last update
  std::vector<size_t> parts_;    ///< synchronous: number of tensors that make each gradient
  std::vector<size_t> missing_;  ///< how many of them have not come
  size_t added_ = 0;             ///< synchronous: number of gradients that are summed
  /// Asynchronous, at other servers than 0: gradients by worker, on which there may be a decision. They outlive the
  /// worker, until another process takes its place.
  std::map<int, Staged> staged_;
  BatchDealer dealer_;
};

}  // namespace mtf
