// What errors say of a context that is too short, and of one that has room.
#pragma once

#include <cstddef>
#include <string>

namespace troika::engine {

class Engine;

// Returns "the context holds 512", and behind it why it holds no more.
std::string context_held(const Engine& engine);

// Returns "use ‹context› 600, which has room for an answer": how to get a context with room for
// n_tokens and an answer of at most most_answer tokens behind them. -1: nobody has limited the
// answer; 0: there is none. It goes behind "Shorten the prompt, or ". Where no context is so long,
// the text says that.
std::string advised_context(const Engine& engine, size_t n_tokens, int most_answer);

// Returns "use a larger ‹context›": how to get a context with more room than this one.
std::string any_larger_context(const Engine& engine);

}  // namespace troika::engine
