// How the values of a tensor of random weights spread.
#pragma once

namespace troika::forge {

struct Distribution {
  float mean = 0.0f;
  float deviation = 1.0f;
};

}  // namespace troika::forge
