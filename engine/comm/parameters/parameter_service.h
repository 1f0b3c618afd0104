// One parameter server: keeps variables, gives them to workers, and applies the gradients that they push (a
// ParameterStorage does the arithmetic).
//
//   FramedListener listener({"10.0.0.1", 2222}, access, kParameterPurpose);
//   ParameterService service(std::move(listener), storage, options);
//   service.serve();                 // returns when the workers have left
//
// Synchronous: an update is made of the gradients of all workers; the chief (worker 0) asks for it.
// Asynchronous: each worker's gradient is an update of its own; server 0 hands out the batches
// (batch_dealer.h).
#pragma once

#include <chrono>
#include <condition_variable>
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
  int server = 0;  ///< its task
  int workers = 1;
  bool asynchronous = false;
  int64_t batch_size = 1;
  int64_t max_staleness = 8;
  /// Asynchronous: updates in a row, of any workers, that are not finite, with which the run has diverged.
  int64_t diverges_after = 1;
  size_t squares = 0;      ///< number of gradients of the run
  ParameterFields fields;  ///< that workers must have too
  std::chrono::milliseconds connect_timeout{300'000};
  std::chrono::milliseconds collective_timeout{600'000};
  std::function<void(const std::string& line)> log;  ///< from any thread
  std::function<void()> prepare_thread;              ///< runs in each thread that touches tensors
  std::function<int()> stop_signal;                  ///< that asks this process to stop; 0: none has
};

class ParameterService {
 public:
  ParameterService(FramedListener listener, ParameterStorage& storage, ParameterServiceOptions options);
  ~ParameterService();
  ParameterService(const ParameterService&) = delete;
  ParameterService& operator=(const ParameterService&) = delete;

  int port() const { return listener_.port(); }
  /// Returns when the run has ended and the workers have left; false: a signal came before the chief. Later
  /// ones are told to the workers with what they pull. Throws Error (kPeerLost) when workers do not come
  /// within the time, when the chief is lost, or, synchronous, any worker; kDiverged when updates are no
  /// longer finite.
  bool serve();

 private:
  /// A connection. Its thread alone sends and receives.
  struct Peer {
    explicit Peer(FramedSocket connected) : socket(std::move(connected)) {}
    FramedSocket socket;
    int worker = -1;  ///< -1: it has not said hello
    bool has_left = false;
    bool is_replaced = false;
    std::string given_up;           ///< why, where its worker takes too long
    bool is_done = false;           ///< its thread ends
    std::vector<PushedPart> parts;  ///< that it pushes in a step
    std::shared_ptr<PushedTensors> pushed = std::make_shared<PushedTensors>();
    size_t received = 0;                         ///< tensors of the gradients in hand
    std::vector<std::vector<std::byte>> pulled;  ///< copies of variables that others may update meanwhile
    std::thread thread;
  };
  using Lock = std::unique_lock<std::mutex>;

  // The life of the service and of its connections.
  void talk(Peer& peer);
  void greet(Peer& peer);
  void welcome(Peer& peer, int worker);
  bool answer(Peer& peer, const Frame& frame);
  void leave(Peer& peer);
  void gone(Peer& peer, const std::string& reason);
  /// The run has failed: every worker is told so. The first error counts.
  void fail(const Error& error);
  bool stops_unused();
  bool is_over(std::optional<std::chrono::steady_clock::time_point>& end);
  void collect_threads();
  Peer* find(int worker);
  std::string missing_workers();
  /// Logs who was not let in; not more often than a log can bear.
  void tell_refused();

  // What both kinds of training ask for (parameter_service_requests.cc).
  void set(Peer& peer, const Frame& frame);
  void start(Peer& peer, const Frame& frame);
  void pull(Peer& peer, const Frame& frame);
  void push(Peer& peer, const Frame& frame);
  /// Waits until `ready`; throws Error (kPeerLost) when the run has failed, or with `missing` after the time.
  void wait(Lock& lock, const std::function<bool()>& ready, const std::function<std::string()>& missing);
  void answer_with(Peer& peer, ParameterOperation operation, const void* data = nullptr, size_t bytes = 0);
  void require_chief(const Peer& peer, const Frame& frame) const;
  /// The bytes of a message: a value, and after it numbers if they are asked for.
  template <class T>
  T read(Peer& peer, const Frame& frame, std::vector<double>* squares = nullptr) {
    T value;
    read(peer, frame, std::as_writable_bytes(std::span(&value, 1)), squares);
    return value;
  }
  void read(Peer& peer, const Frame& frame, std::span<std::byte> value, std::vector<double>* squares);

  // Synchronous (parameter_service_sync.cc).
  void begin_sums();
  void sum(size_t gradient, Lock& lock);
  bool all_added() const { return added_ == missing_.size(); }
  void send_squares(Peer& peer, const Frame& frame);
  void update(Peer& peer, const Frame& frame);
  std::string missing_gradients();

  // Asynchronous (parameter_service_async.cc).
  void next(Peer& peer);
  void commit(Peer& peer, const Frame& frame);
  Error divergence(const Peer& peer, const Committed& update, double loss) const;
  void finish(Peer& peer);
  void pause(Peer& peer);
  void resume(Peer& peer);
  void report(Peer& peer);
  void wait_for_batches(Lock& lock, const std::function<bool()>& ready);
  DealtBatch dealt(std::optional<int64_t> row) const;
  bool is_first_server() const { return options_.server == 0; }

  FramedListener listener_;
  std::string refused_, foreign_;  ///< that were not let in last
  std::chrono::steady_clock::time_point told_{};
  ParameterStorage& storage_;
  const ParameterServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Peer> peers_;
  std::vector<std::string> addresses_;  ///< of the workers that have come
  int64_t starts_ = 0;                  ///< times that the chief has set the variables
  bool ended_ = false;                  ///< the chief has left
  int left_ = 0;                        ///< workers that have
  std::optional<Error> failure_;
  int64_t skipped_ = 0;  ///< asynchronous: the last updates, so many, were not finite
  double rate_scale_ = 1;
  PulledState state_;            ///< of the last update
  std::vector<size_t> parts_;    ///< synchronous, by gradient: tensors that make it
  std::vector<size_t> missing_;  ///< of them those that have not come
  size_t added_ = 0;             ///< synchronous: gradients that are summed
  BatchDealer dealer_;
};

}  // namespace mtf
