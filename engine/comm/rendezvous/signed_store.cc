#include "engine/comm/rendezvous/signed_store.h"

#include <algorithm>
#include <thread>

namespace mtf {

namespace {

constexpr size_t kSignatureBytes = std::tuple_size_v<Proof>;
/// The interval at which get() checks a key that has a value with an invalid signature.
constexpr Milliseconds kLookAgain(20);

}  // namespace

std::string SignedStore::signature(const std::string& key, std::string_view value) const {
  const std::lock_guard lock(mutex_);
  return std::string(text_of(secret_.proof({"value of a store", session_, key, value})));
}

void SignedStore::begin_session(const std::string& session) {
  const std::lock_guard lock(mutex_);
  session_ = session;
}

void SignedStore::set(const std::string& key, const std::string& value) {
  whole_.set(key, signature(key, value) + value);
}

std::optional<std::string> SignedStore::get(const std::string& key, Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
    const std::optional<std::string> text = whole_.get(key, std::max(left, Milliseconds(0)));
    if (!text) return {};
    if (text->size() >= kSignatureBytes) {
      const std::string_view value = std::string_view(*text).substr(kSignatureBytes);
      if (same_bytes(signature(key, value), std::string_view(*text).substr(0, kSignatureBytes)))
        return std::string(value);
    }
    if (left <= kLookAgain) return {};
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace mtf
