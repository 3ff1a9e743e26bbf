#include "convert/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/support/temp_folder.h"

namespace troika::convert {
namespace {

TEST(CheckWhole, AFileThatIsCutShortWhileItIsReadIsASentence) {
  const test::TempFolder folder;
  const std::string path = folder.file("chat_template.jinja");
  test::write_whole(path, std::string(10000, 'a'));
  const MappedFile file = MappedFile::open(path);
  EXPECT_EQ(test::message_of<Error>([&] { check_whole(file); }), "");
  std::filesystem::resize_file(path, 100);
  const std::string message = test::message_of<Error>([&] { check_whole(file); });
  EXPECT_TRUE(message.starts_with(path + ": it became shorter")) << message;
}

// A value takes many times the memory of its text.
TEST(ParseJson, RefusesMoreValuesThanAnyFileHas) {
  const auto list_of = [](size_t n_values) {
    std::string text = "{\"x\":[0";
    for (size_t i = 1; i < n_values; ++i) text += ",0";
    return text + "]}";
  };
  const size_t n_most = (size_t{1} << 22) - 2;  // beside the object and the list
  EXPECT_EQ(parse_json(list_of(n_most), "config.json")["x"].size(), n_most);
  const std::string message =
      test::message_of<Error>([&] { parse_json(list_of(n_most + 2), "config.json"); });
  EXPECT_EQ(message,
            "config.json: it holds more than 4194304 values, as no such file does. Download it "
            "again.");
}

}  // namespace
}  // namespace troika::convert
