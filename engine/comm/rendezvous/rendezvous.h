// The rendezvous of the processes of a run in their store: they find each other, wait for each other, and
// learn that one of them has failed.
//
//   Rendezvous rendezvous(launch, access, build, connect_timeout, reply_timeout);
//   rendezvous.meet();                             // returns when all processes are there
//   const std::optional<std::string> value = rendezvous.wait_for("fields/2", timeout);
//   rendezvous.part(timeout);
#pragma once

#include <cstdint>
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
  /// Connects to the store, which process 0 serves unless the launcher does. Throws Error (kPeerLost,
  /// kSystem, or kConfig as Access::require() does).
  Rendezvous(const Launch& launch, const Access& access, const std::string& build,
             Milliseconds connect_timeout, Milliseconds reply_timeout);

  /// Returns when all processes have come. Throws Error (kPeerLost) that names the ranks that have not come
  /// in time; (kConfig) if two processes claim the same rank, or if the number of processes or the program
  /// differ.
  void meet();

  /// Called instead of meet(): tells the other processes, if any have come, why this one does not take part.
  /// Throws Error if the store belongs to another run, or to one that has already begun.
  void decline(const Error& error);

  Store& store() { return *store_; }
  /// Identifies this start of the run: only its processes know it. Valid after meet().
  const std::string& session() const { return session_; }
  int size() const { return launch_.size; }
  bool is_first() const { return launch_.rank == 0; }
  /// The processes, by rank. Valid after meet().
  const std::vector<ProcessHello>& members() const { return members_; }
  /// Returns "rank 2 (node-b, process 812)"; before meet() "rank 2".
  std::string name(int rank) const;
  /// Returns "rank 2 (...)", "ranks 2, 3".
  std::string names(const std::vector<int>& ranks) const;

  /// Returns the value of a key as soon as it is set, or nothing if it is not set within `timeout`. If a
  /// process publishes a failure meanwhile, throws Error with its name and text: for a wrong configuration
  /// (kConfig), otherwise (kPeerLost).
  std::optional<std::string> wait_for(const std::string& key, Milliseconds timeout);
  /// Throws as wait_for() does.
  void throw_if_failed();
  /// Returns the ranks that have not set "<key>/<rank>".
  std::vector<int> missing(const std::string& key);

  /// Tells the other processes why this process ends, unless they know it already.
  void publish(const Error& error);
  /// Publishes the error and throws it.
  [[noreturn]] void refuse(const Error& error);
  /// True if the others have told this process about the error, or it has told them.
  bool is_known(const Error& error) const;

  /// Sets the time after which a silent server counts as lost; for the end of a run that failed.
  void set_reply_timeout(Milliseconds timeout) { whole_.set_reply_timeout(timeout); }
  /// The last use of the store. The process that serves it waits until all others have called it too.
  void part(Milliseconds timeout);

 private:
  static std::unique_ptr<TcpStoreServer> serve(const Launch& launch, const Access& access,
                                               Milliseconds connect_timeout);
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
  std::optional<SignedStore> signed_;  ///< used if the store itself lets strangers write
  std::unique_ptr<PrefixStore> store_;
  std::vector<ProcessHello> members_;
  std::string session_;
  /// True if the store belongs to another run, which must not hear of a failure here.
  bool is_stranger_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> known_;  ///< texts of known errors
};

}  // namespace mtf
