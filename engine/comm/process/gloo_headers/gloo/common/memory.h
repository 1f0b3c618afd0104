// Debian's libgloo-dev lacks this header, which its gloo/transport/tcp/pair.h includes. Here are the two
// types that are members there, with the members that they have in the library, and nothing that can be done
// with them.
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
