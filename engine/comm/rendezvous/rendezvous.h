// The processes of a run in their store: how they find each other, wait for each other, and hear that one of
// them has failed.
//
//   Rendezvous rendezvous(launch, access, build, connect_timeout, reply_timeout);   // process 0 serves the store
//   rendezvous.meet();                                                   // all have come
//   const std::optional<std::string> value = rendezvous.wait_for("fields/2", timeout);
//   rendezvous.part(timeout);
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/launch/launch.h"
#include "engine/comm/rendezvous/handshake.h"
#include "engine/comm/rendezvous/signed_store.h"
#include "engine/comm/rendezvous/store.h"
#include "engine/comm/rendezvous/tcp_store.h"

namespace mtf {

class Rendezvous {
 public:
  /// Connects with the store, which process 0 serves where the launcher does not. Throws Error (kPeerLost,
  /// kSystem; kConfig: see Access::require()).
  Rendezvous(const Launch& launch, const Access& access, const std::string& build,
             Milliseconds connect_timeout, Milliseconds reply_timeout);

  /// Returns when all have come. Throws Error (kPeerLost) that names the ranks that have not within the time,
  /// (kConfig) for a rank that two processes claim, another number of processes or another program.
  void meet();

  /// Instead of meet(): tells the others, if any have come, why this process does not. Throws Error where
  /// the store is that of another run, or of one that has begun.
  void decline(const Error& error);

  Store& store() { return *store_; }
  /// What only processes of this run, at this start, have in common; after meet().
  const std::string& session() const { return session_; }
  int size() const { return launch_.size; }
  bool is_first() const { return launch_.rank == 0; }
  /// By rank; after meet().
  const std::vector<ProcessHello>& members() const { return members_; }
  /// "rank 2 (node-b, process 812)"; before meet() "rank 2".
  std::string name(int rank) const;
  /// "rank 2 (...)", "ranks 2, 3".
  std::string names(const std::vector<int>& ranks) const;

  /// The value of a key as soon as it is there; nothing: not within `timeout`. Throws Error with what is
  /// wrong when a process has published a failure meanwhile: a wrong configuration (kConfig) in its words,
  /// and else (kPeerLost) with its name.
  std::optional<std::string> wait_for(const std::string& key, Milliseconds timeout);
  /// Throws as wait_for() does.
  void throw_if_failed();
  /// The ranks that have not set "<key>/<rank>".
  std::vector<int> missing(const std::string& key);

  /// Tells the others why this process ends; nothing that they know already.
  void publish(const Error& error);
  /// publish(), and throws it.
  [[noreturn]] void refuse(const Error& error);
  /// The others have told it to this process, or it has told them.
  bool is_known(const Error& error) const;

  /// For the end of a run that failed: a server that is silent for longer is lost.
  void set_reply_timeout(Milliseconds timeout) { whole_.set_reply_timeout(timeout); }
  /// The last use of the store. The process that serves it waits until all have come so far.
  void part(Milliseconds timeout);

 private:
  static std::unique_ptr<TcpStoreServer> serve(const Launch& launch, const Access& access);
  void check_job(Milliseconds timeout);
  void check_not_begun();
  void check_claim(const ProcessHello& mine);
  void judge(const ProcessHello& mine);
  [[noreturn]] void throw_missing();
  void begin(const std::string& begun, const ProcessHello& mine);
  void wait_for_parting(int64_t processes, Milliseconds timeout);
  void mark_known(const Error& error);

  const Launch launch_;
  const std::string build_;
  const Milliseconds connect_timeout_;
  std::unique_ptr<TcpStoreServer> server_;
  TcpStore whole_;
  std::optional<SignedStore> signed_;  ///< where the store itself lets strangers write
  std::unique_ptr<PrefixStore> store_;
  std::vector<ProcessHello> members_;
  std::string session_;
  bool is_stranger_ = false;  ///< the run in the store is another one: it must
                              ///< not hear of a failure here
  mutable std::mutex mutex_;
  std::vector<std::string> known_;  ///< texts of errors
};

}  // namespace mtf
