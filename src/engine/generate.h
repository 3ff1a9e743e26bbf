// Text in, text out: from a prompt it makes an answer that streams, and says what that took.
#pragma once

#include <span>

#include "engine/answer.h"

namespace troika::engine {

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink);

}  // namespace troika::engine
