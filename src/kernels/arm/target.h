// Compiles a stretch of a file for a processor with dot products; see kernels/x86/target.h.
#pragma once

#if defined(__clang__)
#define TROIKA_TARGET_BEGIN
#define TROIKA_TARGET_BEGIN_I8MM
#define TROIKA_TARGET_END
#else
#define TROIKA_TARGET_BEGIN \
  _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod\")")
#define TROIKA_TARGET_BEGIN_I8MM \
  _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod+i8mm\")")
#define TROIKA_TARGET_END _Pragma("GCC pop_options")
#endif
