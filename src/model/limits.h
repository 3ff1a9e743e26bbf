// What a model may have at most. These limits are far above every model, and far below where
// products of two of them overflow. Who reads a model, who converts one and who reserves memory for
// one take them from here, so that nobody refuses what another one let through.
#pragma once

namespace troika::model {

inline constexpr int kMostLayers = 4096;
inline constexpr int kMostWidth = 1 << 20;  // limits every length of a row
inline constexpr int kMostVocabulary = 1 << 24;
inline constexpr int kMostContext = 1 << 27;
inline constexpr int kMostExperts = 1024;

}  // namespace troika::model
