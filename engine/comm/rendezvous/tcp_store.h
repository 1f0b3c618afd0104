// The rendezvous store over TCP: one process (or a launcher) serves it, all are clients of it.
//
//   TcpStoreServer server({.address = {"10.0.0.1", 29500}, .access = access});
//   TcpStore store({.host = "10.0.0.1", .port = server.port(), .access = access});
//   store.add("arrived", 1);
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/access.h"

namespace mtf {

struct TcpStoreServerOptions {
  HostPort address{"127.0.0.1", 0};  ///< port 0: any that is free
  Access access = {};
  size_t most_bytes = size_t{512} << 20;  ///< of all values, and of messages that are on their way
};

/// Serves until its end, in one thread, those who know the secret; what others send to the port neither
/// stalls nor ends it. Values, connections and the time of a request are bounded.
class TcpStoreServer {
 public:
  /// Throws Error as listen_for_members() does.
  explicit TcpStoreServer(TcpStoreServerOptions options = {});
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  /// The address of the last client that had another secret; empty: there was none.
  std::string refused() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

struct TcpStoreOptions {
  std::string host;
  int port = 0;
  Milliseconds connect_timeout{300'000};  ///< for the first connection
  Milliseconds reply_timeout{60'000};     ///< a server that is silent for longer is lost
  Access access = {};
  int rank = 0;
  bool authenticates = true;  ///< false: a server of PyTorch, which cannot
};

/// A client of a TcpStoreServer, or of PyTorch's. Calls of several threads do not wait for each other: each
/// has a connection of its own.
class TcpStore final : public Store {
 public:
  /// Waits until the server can be reached. Throws Error (kPeerLost) when nothing answers within the time,
  /// (kSystem) when what answers is no such server or the host is unknown, (kConfig) when it has another
  /// secret or is on another machine and there is none.
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  /// Returns when the server has the value.
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

  /// The address of this machine on its way to the server, in numbers.
  const std::string& local_address() const { return local_address_; }
  /// The address at which this machine reaches the server, in numbers.
  const std::string& server_address() const { return server_address_; }
  /// Holds for calls under way, too.
  void set_reply_timeout(Milliseconds timeout) { reply_timeout_ = timeout.count(); }

 private:
  class Connection;
  std::unique_ptr<Connection> first_connection() const;
  std::unique_ptr<Connection> take();
  /// A connection that is in the middle of nothing.
  void give_back(std::unique_ptr<Connection> connection);

  const TcpStoreOptions options_;
  std::atomic<int64_t> reply_timeout_;
  std::string local_address_, server_address_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

/// A part of a store: its keys are those of the whole after `prefix`, which must outlive it.
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
