// One parameter server: keeps variables, gives them to workers, and applies the gradients that they push. It
// knows nothing of models: a ParameterStorage does the arithmetic.
//
//   ParameterService service(FramedListener(2222, false), storage, options);
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

#include "engine/comm/parameters/batch_dealer.h"
#include "engine/comm/parameters/framed_socket.h"
#include "engine/comm/parameters/parameter_protocol.h"

namespace mtf {

/// Tensors that a worker has pushed, in the order of ParameterStorage::pushed_bytes.
using PushedTensors = std::vector<std::vector<std::byte>>;

/// What a server does with its variables. One call at a time.
class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  /// The memory of a variable; empty: it is not here.
  virtual std::span<std::byte> variable(uint32_t id) = 0;
  /// Sizes of the tensors that a worker pushes to this server in a step.
  virtual std::vector<size_t> pushed_bytes(int worker) const = 0;
  /// Adds up the gradients of these workers (synchronous: all of them, in order).
  virtual void add(const std::vector<const PushedTensors*>& workers) = 0;
  /// Sums of squares of the gradients that add() has made, by variable of this server that has one.
  virtual std::vector<double> squares() = 0;

  struct Outcome {
    double grad_norm = 0;
    bool finite = true;
  };
  /// Updates the variables with the gradients that add() has made. `squares`: of all gradients of the run.
  virtual Outcome update(int64_t step, double rate_scale, double loss, std::span<const double> squares) = 0;
};

struct ParameterServiceOptions {
  int server = 0;  ///< its task
  int workers = 1;
  bool asynchronous = false;
  int64_t batch_size = 1;
  int64_t max_staleness = 8;
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
  /// within the time, when the chief is lost, or, synchronous, any worker.
  bool serve();

 private:
  /// A connection. Its thread alone sends and receives.
  struct Peer {
    explicit Peer(FramedSocket connected) : socket(std::move(connected)) {}
    FramedSocket socket;
    int worker = -1;  ///< -1: it has not said hello
    bool has_left = false;
    bool is_replaced = false;
    bool is_done = false;  ///< its thread ends
    PushedTensors pushed;
    size_t received = 0;  ///< tensors of the gradients in hand
    std::thread thread;
  };
  using Lock = std::unique_lock<std::mutex>;

  void talk(Peer& peer);
  void greet(Peer& peer);
  bool answer(Peer& peer, const Frame& frame);
  void set(Peer& peer, const Frame& frame);
  void start(Peer& peer, const Frame& frame);
  void pull(Peer& peer, const Frame& frame);
  void push(Peer& peer, const Frame& frame);
  void send_squares(Peer& peer, const Frame& frame);
  void update(Peer& peer, const Frame& frame);
  void next(Peer& peer);
  void commit(Peer& peer, const Frame& frame);
  void pause(Peer& peer);
  void report(Peer& peer);

  bool stops_unused();
  void gone(Peer& peer, const std::string& reason);
  void fail(const std::string& what);
  /// Waits until `ready`; throws Error (kPeerLost) when the run has failed, or with `missing` after the time.
  template <class Ready, class Missing>
  void wait(Lock& lock, const Ready& ready, const Missing& missing);
  void wait_for_batches(Lock& lock, const std::function<bool()>& ready);
  void collect_threads();
  Peer* find(int worker);
  std::string missing_gradients();
  std::string missing_workers();
  DealtBatch dealt(std::optional<int64_t> row) const;
  bool is_first_server() const { return options_.server == 0; }
  void answer_with(Peer& peer, ParameterOperation operation, const void* data, size_t bytes);
  void require_chief(const Peer& peer, const Frame& frame) const;
  template <class T>
  T read(Peer& peer, const Frame& frame, std::vector<double>* squares = nullptr);

  FramedListener listener_;
  ParameterStorage& storage_;
  const ParameterServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Peer> peers_;
  std::vector<std::string> addresses_;  ///< of the workers that have come
  bool started_ = false;                ///< the variables are set
  bool ended_ = false;                  ///< the chief has left
  int left_ = 0;                        ///< workers that have
  std::optional<std::string> failure_;
  double rate_scale_ = 1;
  PulledState state_;  ///< of the last update
  BatchDealer dealer_;
};

}  // namespace mtf
