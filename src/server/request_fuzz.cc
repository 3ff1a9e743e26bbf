// Checks that the body of any request is either refused, or makes a conversation that can be shown
// to a template. The first byte chooses the interface.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "server/anthropic/read_messages.h"
#include "server/calls/turn.h"
#include "server/openai/read_responses.h"

namespace {

using namespace troika;          // NOLINT(google-build-using-namespace)
using namespace troika::server;  // NOLINT(google-build-using-namespace)

const text::Tokenizer& small_tokenizer() {
  static const auto kTokenizer = [] {
    text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
    v.tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab"};
    v.types.assign(v.tokens.size(), text::TokenType::kNormal);
    v.types[0] = text::TokenType::kUnknown;
    v.scores.assign(v.tokens.size(), 0.0f);
    return text::make_tokenizer(v);
  }();
  return *kTokenizer;
}

void check(const Conversation& conversation) {
  TROIKA_ASSERT(conversation.messages.is_array());
  TROIKA_ASSERT(!conversation.messages.empty() || !conversation.beginning.empty());
  for (const Json& message : conversation.messages) {
    TROIKA_ASSERT(message.is_object() && message.contains("role"));
  }
  for (const Tool& tool : conversation.tools) {
    TROIKA_ASSERT(tool.parameters.is_object() && tool.shown.contains("function"));
  }
  if (!conversation.choice.name.empty()) TROIKA_ASSERT(!conversation.tools.empty());
  TROIKA_ASSERT(!dump(conversation.messages).empty());
  TROIKA_ASSERT(!dump(conversation.tools_json()).empty());
}

void read(unsigned interface, const Json& body) {
  Fields fields(body);
  switch (interface % 4) {
    case 0:
      check(read_conversation(fields));
      (void)read_form(fields);
      break;
    case 1:
      check(read_messages(fields));
      break;
    case 2:
      check(read_responses(fields));
      (void)read_text_form(fields);
      break;
    default: {
      Wanted wanted;
      read_sampling(fields, small_tokenizer(), {}, &wanted);
      (void)read_stops(fields, "stop");
      ignore_remarks(fields);
    }
  }
  fields.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    read(data[0], object_from(text));
  } catch (const Refused& refused) {
    TROIKA_ASSERT(refused.status >= 400 && refused.status < 500);
    TROIKA_ASSERT(*refused.what() != '\0');
  }
  return 0;
}
