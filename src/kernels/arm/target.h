// Compiles a stretch of a file for a processor with dot products; see kernels/x86/target.h.
#pragma once

#if defined(__clang__)
// clang 14 declares the dot product instructions only where the whole file may use them, so that
// it builds these files with -march (CMakeLists.txt of the root).
#define TROIKA_TARGET_BEGIN
#define TROIKA_TARGET_END
#else
#define TROIKA_TARGET_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod\")")
#define TROIKA_TARGET_END _Pragma("GCC pop_options")
#endif
