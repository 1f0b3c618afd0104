// A store that strangers may write to (that of torchrun's agent), used by those who know a secret: values
// carry a signature, and what has none counts as not there. Strangers may still see all values and delete
// them.
//
//   SignedStore store(tcp_store, secret);
//   store.set("run/fields/2", text);
//   store.begin_session(nonces);      // values of earlier runs are worth nothing from now on
#pragma once

#include <mutex>
#include <string>

#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/secret.h"

namespace mtf {

class SignedStore final : public Store {
 public:
  /// `whole` outlives it.
  SignedStore(Store& whole, Secret secret) : whole_(whole), secret_(std::move(secret)) {}

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  /// Sums carry no signature: they are hints, whose consequences are to be confirmed by values.
  int64_t add(const std::string& key, int64_t amount) override { return whole_.add(key, amount); }

  /// Values that are set and got from now on are signed for this session; those before are of none.
  void begin_session(const std::string& session);

 private:
  std::string signature(const std::string& key, std::string_view value) const;

  Store& whole_;
  const Secret secret_;
  mutable std::mutex mutex_;
  std::string session_;
};

}  // namespace mtf
