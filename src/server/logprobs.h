// Names the engine's types for likelihoods of an answer's tokens, which requests may ask for.
#pragma once

#include "engine/scoring/logprobs.h"

namespace troika::server {

using engine::Likelihood;
using engine::Likelihoods;
using engine::LogprobRecorder;
using engine::TokenLogprobs;

}  // namespace troika::server
