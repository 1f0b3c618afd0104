#include "engine/comm/security/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "engine/base/check.h"
#include "engine/base/error.h"

namespace mtf {

Secret Secret::random() {
  std::string digits;
  for (const char byte : random_bytes(32)) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return Secret(digits);
}

Proof Secret::proof(std::initializer_list<std::string_view> message) const {
  std::string bytes;
  for (const std::string_view part : message) {
    const uint64_t size = part.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes.append(part);
  }
  Proof proof;
  unsigned int size = 0;
  const auto* made = ::HMAC(::EVP_sha256(), text_.data(), static_cast<int>(text_.size()),
                            reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                            reinterpret_cast<unsigned char*>(proof.data()), &size);
  MTF_CHECK(made != nullptr && size == proof.size(), "OpenSSL has no HMAC-SHA256");
  return proof;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
    throw Error(ErrorKind::kSystem, "the system has no random numbers for a secret");
  return bytes;
}

bool same_bytes(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace mtf
