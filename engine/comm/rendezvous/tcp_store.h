// The rendezvous store over TCP: one process (or a launcher) serves it, all are clients of it.
//
//   TcpStoreServer server(29500);
//   TcpStore store({.host = "node-a", .port = server.port()});
//   store.add("arrived", 1);
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/rendezvous/store.h"

namespace mtf {

/// Serves until its end, in one thread. Speaks the protocol of PyTorch's TCPStore. What other programs send
/// to the port neither stalls nor ends it.
class TcpStoreServer {
 public:
  /// Port 0: any that is free. `only_this_machine`: listens on 127.0.0.1 alone. Throws Error (kSystem) when
  /// the port is in use.
  explicit TcpStoreServer(int port, bool only_this_machine = false);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

struct TcpStoreOptions {
  std::string host;
  int port = 0;
  Milliseconds connect_timeout{300'000};  ///< for the first connection
  Milliseconds reply_timeout{60'000};     ///< a server that is silent for longer is lost
};

/// A client of a TcpStoreServer, or of PyTorch's. Calls of several threads do not wait for each other: each
/// has a connection of its own.
class TcpStore final : public Store {
 public:
  /// Waits until the server can be reached. Throws Error (kPeerLost) when nothing answers within the time,
  /// (kSystem) when what answers is no such server or the host is unknown.
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
