// The protocol of the rendezvous store: a subset of that of PyTorch's TCPStore, so that our clients can use
// the agent of torchrun. A connection to our own server begins with challenge and response
// (security/authentication.h) in place of kValidate and kPing.
//
// A request is one byte (its number), followed by its arguments. Integers are in the machine's byte order;
// texts are preceded by their length (64 bits), lists by the number of their entries (64 bits).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace mtf {

enum class StoreRequest : uint8_t {
  kValidate = 0,     ///< u32 kStoreMagic; the first request to PyTorch's server; no answer
  kSet = 1,          ///< key, value; no answer
  kGet = 3,          ///< key -> value (empty if it is not set)
  kAdd = 4,          ///< key, i64 -> i64
  kCheck = 5,        ///< keys -> u8 kReady if all are set, otherwise kNotReady
  kWait = 6,         ///< keys -> u8 kStopWaiting, as soon as all are set
  kCancelWait = 12,  ///< -> u8 kWaitCancelled
  kPing = 13,        ///< u32 -> the same; only for PyTorch's server
};

inline constexpr uint32_t kStoreMagic = 0x3C85F7CE;
inline constexpr uint8_t kReady = 0, kNotReady = 1;
inline constexpr uint8_t kStopWaiting = 0, kWaitCancelled = 1;

// The limits of a server: it closes the connection of a client that exceeds them.
inline constexpr uint64_t kLongestStoreKey = uint64_t{4} << 10;
inline constexpr uint64_t kLongestStoreValue = uint64_t{64} << 20;
inline constexpr uint64_t kMostStoreKeys = 4096;
inline constexpr size_t kMostStoreClients = 16'384;

/// The purpose of connections to our server.
inline constexpr const char* kStorePurpose = "rendezvous store";

/// Appends numbers and texts to a message.
class StoreWriter {
 public:
  explicit StoreWriter(std::string& out) : out_(out) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> StoreWriter& number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  StoreWriter& text(std::string_view text) {
    number<uint64_t>(text.size());
    out_.append(text);
    return *this;
  }

 private:
  std::string& out_;
};

/// Reads numbers and texts from the front of the bytes that have arrived. If these are too few, the results
/// are empty and complete() is false; if a size exceeds its limit, good() is false.
class StoreReader {
 public:
  explicit StoreReader(std::string_view in) : in_(in) {}
  template <class T>
  T number() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, in_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string_view text(uint64_t longest) {
    const auto size = number<uint64_t>();
    good_ = good_ && size <= longest;
    if (!good_ || !take(size)) return {};
    return in_.substr(at_ - size, size);
  }
  bool complete() const { return complete_; }
  bool good() const { return good_; }
  void refuse() { good_ = false; }
  /// The number of bytes read.
  size_t size() const { return at_; }

 private:
  bool take(size_t size) {
    complete_ = complete_ && size <= in_.size() - at_;
    if (complete_) at_ += size;
    return complete_;
  }

  std::string_view in_;
  size_t at_ = 0;
  bool complete_ = true;
  bool good_ = true;
};

}  // namespace mtf
