// A view of a store to which strangers can write (that of torchrun's agent), for processes that know a
// secret. Values carry a signature; a value without a valid one counts as not set. Strangers can still read
// all values and delete them.
//
//   SignedStore store(tcp_store, secret);
//   store.set("run/fields/2", text);
//   store.begin_session(nonces);      // values of earlier runs are invalid from now on
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/secret.h"

namespace mtf {

class SignedStore final : public Store {
 public:
  /// `whole` must outlive the object.
  SignedStore(Store& whole, Secret secret) : whole_(whole), secret_(std::move(secret)) {}

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  /// Sums carry no signature: they are only hints, which must be confirmed by values.
  int64_t add(const std::string& key, int64_t amount) override { return whole_.add(key, amount); }

  /// Values that are set or read from now on must be signed for this session.
  void begin_session(const std::string& session);

 private:
  std::string signature(const std::string& key, std::string_view value) const;

  Store& whole_;
  const Secret secret_;
  mutable std::mutex mutex_;
  std::string session_;
};

}  // namespace mtf
