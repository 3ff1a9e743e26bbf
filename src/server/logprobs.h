// The likelihoods of an answer's tokens, as requests ask for them.
#pragma once

#include "engine/scoring/logprobs.h"

namespace troika::server {

using engine::Likelihood;
using engine::Likelihoods;
using engine::LogprobRecorder;
using engine::TokenLogprobs;

}  // namespace troika::server
