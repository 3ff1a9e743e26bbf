#include "engine/memory/context_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/engine.h"
#include "model/limits.h"

namespace troika::engine {
namespace {

// Is the room in tokens that is advised for an answer whose length nobody has limited.
constexpr int kUsualAnswer = 256;
// Limits the room that is advised for an answer: who allows it any length wants no such context.
constexpr int kLongAnswer = 8192;

bool has_planned_context(const Engine& engine) { return !engine.start().plan_file.empty(); }

size_t wanted_context(size_t n_tokens, int most_answer, size_t trained) {
  const int n_answer = most_answer < 0 ? kUsualAnswer : std::min(most_answer, kLongAnswer);
  const size_t n_wanted = n_tokens + static_cast<size_t>(n_answer);
  const size_t most = n_tokens < trained ? trained : size_t{model::kMostContext};
  return std::max(n_tokens, std::min(n_wanted, most));
}

// Returns what goes behind the advice to use another context: beside a plan's file it does nothing.
std::string beside_plan(const Engine& engine, const char* comma) {
  if (!has_planned_context(engine)) return "";
  return std::string(comma) + " without ‹plan›, or make another plan with it";
}

}  // namespace

std::string context_held(const Engine& engine) {
  std::string text = fmt::format("the context holds {}", engine.plan().context);
  if (has_planned_context(engine)) text += fmt::format(", as {} says", engine.start().plan_file);
  if (engine.start().has_short_context) text += ", as memory is short";
  return text;
}

std::string advised_context(const Engine& engine, size_t n_tokens, int most_answer) {
  if (n_tokens > size_t{model::kMostContext}) {
    return fmt::format("ask for fewer tokens: the longest ‹context› is {}", model::kMostContext);
  }
  const auto trained = static_cast<size_t>(engine.blueprint().trained_context);
  const size_t n_wanted = wanted_context(n_tokens, most_answer, trained);
  const bool has_answer = n_wanted > n_tokens;
  std::string text = fmt::format("use ‹context› {}{}{}", n_wanted,
                                 has_answer ? ", which has room for an answer" : "",
                                 beside_plan(engine, has_answer ? "," : ""));
  if (n_wanted > trained) text += fmt::format("; the model was trained on {} tokens", trained);
  return text;
}

std::string any_larger_context(const Engine& engine) {
  return "use a larger ‹context›" + beside_plan(engine, "");
}

}  // namespace troika::engine
