// How real chat templates write calls of tools: what is found by probing must read back what the
// template itself writes. The templates lie where TROIKA_DATA says, and nowhere in the project.
#include "server/calls/shape.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/chat.h"
#include "server/calls/answer_readers.h"
#include "tests/support/tiny_engine.h"

namespace troika::server {
namespace {

using ShapeJson = nlohmann::ordered_json;

std::map<std::string, std::string> real_templates() {
  std::map<std::string, std::string> templates;
  const char* const data = std::getenv("TROIKA_DATA");
  const std::filesystem::path folder =
      std::filesystem::path(data != nullptr ? data : "") / "chat-templates";
  if (data == nullptr || !std::filesystem::exists(folder)) return templates;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    templates[entry.path().stem().string()] = text.str();
  }
  return templates;
}

// "name(arguments)" for each call, and the text around them.
std::string read_back(const CallShape& shape, const std::string& text) {
  CallReader reader(shape);
  std::string calls;
  const auto add = [&](const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (delta.kind == Delta::Kind::kCall) {
        calls += "|" + delta.text + ":";
      } else if (delta.kind == Delta::Kind::kArguments) {
        calls += delta.text;
      }
    }
  };
  for (const char c : text) add(reader.push(std::string_view(&c, 1)));
  add(reader.finish());
  return calls;
}

TEST(CallShapes, ReadBackWhatRealTemplatesWrite) {
  const std::map<std::string, std::string> templates = real_templates();
  if (templates.empty()) GTEST_SKIP() << "TROIKA_DATA names no folder with chat-templates.";
  test_support::TinyEngine tiny;
  int n_of_template = 0;
  for (const auto& [name, source] : templates) {
    const engine::ChatFormat chat(*tiny.engine, source);
    const CallShape shape = find_shape(chat);
    const ThoughtMarks marks = find_thought_marks(chat);
    RecordProperty(name, shape.is_of_template ? shape.before + "NAME" + shape.middle : "none");
    if (std::getenv("TROIKA_SHOW") != nullptr) {
      std::cout << name << (shape.is_of_template ? " | " : " | (common) ")
                << ShapeJson(shape.before + "NAME" + shape.middle + "ARGS" + shape.after).dump()
                << " | " << ShapeJson(shape.between).dump() << " | " << marks.open << "\n";
    }
    if (!shape.is_of_template) continue;
    ++n_of_template;
    const std::string arguments = R"({"a":"}\"","b":[1]})";
    std::string text = shape.before + "first" + shape.middle + arguments;
    std::string expected = "|first:" + arguments;
    if (!shape.between.empty()) {
      text += shape.between + "second" + shape.middle + "{}";
      expected += "|second:{}";
    }
    EXPECT_EQ(read_back(shape, text + shape.after), expected) << name;
  }
  EXPECT_GT(n_of_template, 10) << "of " << templates.size();
}

}  // namespace
}  // namespace troika::server
