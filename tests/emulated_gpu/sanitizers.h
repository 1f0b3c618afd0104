// Detects AddressSanitizer, which must be told of stacks and of memory outside the heap.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define MTF_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MTF_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(MTF_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
