// Checks that an answer means the same however its text is cut into parts, whatever a model
// writes. The first byte chooses who reads it.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/calls/answer_readers.h"
#include "server/calls/channels.h"

namespace {

using namespace troika::server;  // NOLINT(google-build-using-namespace)

CallShape json_shape() {
  return {"<tool>{\"name\": \"", "\", \"arguments\": ", "}</tool><tool>{\"name\": \"", "}</tool>",
          true};
}

CallShape pairs_shape() {
  CallShape shape{"<f=", ">", "</f><f=", "</f>", true};
  shape.pairs = CallShape::Pairs{"<p=", ">", ">", "</p>"};
  return shape;
}

CallShape marked_shape() {
  CallShape shape;
  shape.before = "<call>";
  shape.after = "</call>";
  shape.between = shape.after + shape.before;
  shape.is_of_template = true;
  shape.text_mark = "<|\"|>";
  return shape;
}

std::unique_ptr<Reader> make_reader(unsigned choice) {
  const auto calls = [&]() -> std::unique_ptr<Reader> {
    switch (choice % 3) {
      case 0:
        return std::make_unique<CallReader>(json_shape());
      case 1:
        return std::make_unique<CallReader>(pairs_shape());
      default:
        return std::make_unique<CallReader>(marked_shape());
    }
  };
  switch (choice / 3 % 4) {
    case 0:
      return calls();
    case 1:
      return std::make_unique<ThoughtReader>(ThoughtMarks{"<think>", "</think>"}, false, calls());
    case 2:
      return std::make_unique<ThoughtReader>(ThoughtMarks{"<think>", "</think>"}, true, calls());
    default:
      return std::make_unique<ChannelReader>(choice / 12 % 2 == 0, choice / 24 % 2 == 0);
  }
}

// Returns what is read of the text when it comes in parts of `part` bytes.
std::string read_all(unsigned choice, std::string_view text, size_t part) {
  const std::unique_ptr<Reader> reader = make_reader(choice);
  std::string meant;
  auto last = Delta::Kind::kText;
  bool has_call = false;
  const auto add = [&](const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (delta.kind == Delta::Kind::kCall) has_call = true;
      // Arguments belong to a call.
      if (delta.kind == Delta::Kind::kArguments) TROIKA_ASSERT(has_call);
      const bool goes_on = delta.kind == last && delta.kind != Delta::Kind::kCall;
      if (!goes_on && (!delta.text.empty() || delta.kind == Delta::Kind::kCall)) {
        meant += "\n" + std::to_string(static_cast<int>(delta.kind)) + ":";
        last = delta.kind;
      }
      meant += delta.text;
    }
  };
  while (!text.empty()) {
    add(reader->push(text.substr(0, part)));
    text.remove_prefix(std::min(part, text.size()));
  }
  add(reader->finish());
  return meant;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = read_all(data[0], text, size);
  TROIKA_ASSERT(read_all(data[0], text, 1) == whole);
  TROIKA_ASSERT(read_all(data[0], text, 5) == whole);
  return 0;
}
