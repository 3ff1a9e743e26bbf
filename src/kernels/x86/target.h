// Compiles a stretch of a file for a processor that has more than the baseline, so that one program
// runs everywhere. Begin after the last #include: code of other headers must not be compiled
// for it, because the linker may keep that copy for the whole program.
#pragma once

#if defined(__clang__)
#define TROIKA_PRAGMA(text) _Pragma(#text)
#define TROIKA_TARGET_BEGIN(features) \
  TROIKA_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define TROIKA_TARGET_END _Pragma("clang attribute pop")
#else
#define TROIKA_PRAGMA(text) _Pragma(#text)
#define TROIKA_TARGET_BEGIN(features) \
  _Pragma("GCC push_options") TROIKA_PRAGMA(GCC target(features))
#define TROIKA_TARGET_END _Pragma("GCC pop_options")
#endif
