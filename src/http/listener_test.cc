#include "http/listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::http {
namespace {

TEST(Listeners, SayWhereTheyListen) {
  const Listener listener = Listener::tcp("127.0.0.1", 0);
  EXPECT_GT(listener.port(), 0);
  EXPECT_EQ(listener.name(), "http://127.0.0.1:" + std::to_string(listener.port()));
  EXPECT_THROW(Listener::tcp("127.0.0.1", listener.port()), Error);
  EXPECT_THROW(Listener::tcp("example.org", 0), UsageError);
}

TEST(Listeners, ReplaceSocketsThatAreLeftBehindAlone) {
  const test::TempFolder folder;
  const std::string path = folder.file("s");
  {
    const Listener listener = Listener::unix_socket(path);
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
    EXPECT_THROW(Listener::unix_socket(path), Error);  // a server already listens there
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    Descriptor dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_NO_THROW(Listener::unix_socket(path));
  test::write_whole(path, "precious");
  EXPECT_THROW(Listener::unix_socket(path), Error);
  EXPECT_THROW(Listener::unix_socket(std::string(200, 'a')), UsageError);
}

}  // namespace
}  // namespace troika::http
