// The rendezvous store over TCP: one process, or a launcher, serves it, and all processes are its clients.
//
//   TcpStoreServer server({.address = {"10.0.0.1", 29500}, .access = access});
//   TcpStore store({.host = "10.0.0.1", .port = server.port(), .access = access});
//   store.add("arrived", 1);
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/access.h"

namespace mtf {

struct TcpStoreServerOptions {
  HostPort address{"127.0.0.1", 0};  ///< port 0: any free port
  Access access = {};
  std::chrono::milliseconds patience{0};  ///< listen_for_members()
  size_t most_bytes = size_t{512} << 20;  ///< limit for all values, and messages in transit
};

/// Serves the clients that know the secret, in one thread, until it is destroyed. Whatever others send to the
/// port neither blocks nor ends it: values, connections and the time of a request are bounded.
class TcpStoreServer {
 public:
  /// Throws Error as listen_for_members() does.
  explicit TcpStoreServer(TcpStoreServerOptions options = {});
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  /// Returns the address of the last client that had another secret; empty if there was none.
  std::string refused() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

struct TcpStoreOptions {
  std::string host;
  int port = 0;
  Milliseconds connect_timeout{300'000};  ///< for the first connection
  Milliseconds reply_timeout{60'000};     ///< a server that is silent for longer counts as lost
  Access access = {};
  int rank = 0;
  bool authenticates = true;  ///< false: the server is PyTorch's, which does not authenticate
};

/// A client of a TcpStoreServer, or of PyTorch's server. Calls in several threads do not wait for each other,
/// because each uses a connection of its own.
class TcpStore final : public Store {
 public:
  /// Waits until the server can be reached. Throws Error (kPeerLost) if nothing answers in time; (kSystem) if
  /// the answer is not that of such a server, or if the host is unknown; (kConfig) if the server has another
  /// secret, or if it is on another machine and there is no secret.
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  /// Returns when the server has the value.
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

  /// The IP address of this machine on the way to the server.
  const std::string& local_address() const { return local_address_; }
  /// The IP address at which this machine reaches the server.
  const std::string& server_address() const { return server_address_; }
  /// Sets the reply timeout, also for running calls.
  void set_reply_timeout(Milliseconds timeout) { reply_timeout_ = timeout.count(); }

 private:
  class Connection;
  std::unique_ptr<Connection> first_connection() const;
  std::unique_ptr<Connection> take();
  /// Takes back a connection that is not in the middle of a message.
  void give_back(std::unique_ptr<Connection> connection);

  const TcpStoreOptions options_;
  std::atomic<int64_t> reply_timeout_;
  std::string local_address_, server_address_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

/// A part of a store: `prefix` precedes its keys in the whole store, which must outlive it.
class PrefixStore final : public Store {
 public:
  PrefixStore(Store& whole, std::string prefix) : whole_(whole), prefix_(std::move(prefix)) {}
  void set(const std::string& key, const std::string& value) override { whole_.set(prefix_ + key, value); }
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override {
    return whole_.get(prefix_ + key, timeout);
  }
  int64_t add(const std::string& key, int64_t amount) override { return whole_.add(prefix_ + key, amount); }

 private:
  Store& whole_;
  std::string prefix_;
};

}  // namespace mtf
