// The parts of the standard library that kernels use, for NVRTC, which has none: it gets this text for every
// standard header.
#ifndef MTF_NVRTC_STANDARD_H_
#define MTF_NVRTC_STANDARD_H_

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

namespace std {

using ::size_t;

template <class T>
class optional;
class string_view;

template <bool condition, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool condition, class T, class F>
using conditional_t = typename conditional<condition, T, F>::type;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;

template <class T>
struct make_unsigned;
template <>
struct make_unsigned<int32_t> {
  using type = uint32_t;
};
template <>
struct make_unsigned<int64_t> {
  using type = uint64_t;
};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;

template <class To, class From>
constexpr To bit_cast(const From& value) {
  return __builtin_bit_cast(To, value);
}

template <class T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
constexpr T max(initializer_list<T> values) {
  T largest = *values.begin();
  for (const T& value : values) largest = max(largest, value);
  return largest;
}

template <class T, size_t count>
struct array {
  T values[count];

  constexpr T& operator[](size_t i) { return values[i]; }
  constexpr const T& operator[](size_t i) const { return values[i]; }
};

}  // namespace std

#endif  // MTF_NVRTC_STANDARD_H_
