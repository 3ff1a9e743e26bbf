// Factors between units, for figures that are floats.
#pragma once

namespace troika {

inline constexpr double kUsPerMs = 1e3;
inline constexpr double kUsPerS = 1e6;
inline constexpr double kMsPerS = 1e3;
inline constexpr double kBytesPerMb = 1e6;
inline constexpr double kBytesPerGb = 1e9;
inline constexpr double kBytesPerUsOfGbPerS = 1e3;
inline constexpr double kFloatBytes = 4.0;

}  // namespace troika
