// Debian's libgloo-dev lacks this header, which its gloo/transport/tcp/pair.h includes. It defines the two
// types of members there, with the same layout as in the library but without functions.
#pragma once

#include <memory>

namespace gloo {

template <class T>
class NonOwningPtr {
  std::shared_ptr<T> pointer_;
};

template <class T>
class WeakNonOwningPtr {
  std::weak_ptr<T> pointer_;
};

}  // namespace gloo
