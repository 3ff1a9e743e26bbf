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

}  // namespace
}  // namespace troika::convert
