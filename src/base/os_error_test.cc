#include "base/os_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(OsError, SaysWhatToDo) {
  errno = ENOSPC;
  EXPECT_EQ(test::message_of<Error>([] { throw_errno("/a/b", "write it"); }),
            "/a/b: cannot write it: the disk is full; free some space or choose a path on another "
            "disk.");
}

TEST(OsError, QuotedTextCannotHarmATerminal) {
  EXPECT_EQ(quoted("token_embd.weight"), "\"token_embd.weight\"");
  EXPECT_EQ(quoted("a\x1b[2J\n\xff\"\\"), "\"a\\x1b[2J\\x0a\\xff\\\"\\\\\"");
  EXPECT_EQ(quoted("aaaaa", 3), "\"aaa...\"");
}

}  // namespace
}  // namespace troika
