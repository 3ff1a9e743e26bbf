// Text in, text out: a prompt, an answer that streams, and what it took.
#pragma once

#include <span>

#include "engine/answer.h"

namespace troika::engine {

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink);

}  // namespace troika::engine
