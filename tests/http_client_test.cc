// The client by which servers are tested must not take a part of an answer for the whole.
#include "tests/support/http_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/support/temp_folder.h"

namespace troika::test_support {
namespace {

// Returns what a client makes of a server that sends these bytes and closes the connection.
HttpAnswer answer_of(const std::string& bytes) {
  const test::TempFolder folder;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, folder.file("socket").c_str(), sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  HttpClient client(address.sun_path);
  const int server = accept(listener, nullptr, nullptr);
  EXPECT_EQ(send(server, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  close(server);
  close(listener);
  return client.read_answer();
}

TEST(HttpClient, TakesWholeAnswersAlone) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  const std::string with_length = head + "Content-Length: 5\r\n\r\n";
  const std::string in_chunks = head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
  EXPECT_EQ(answer_of(with_length + "abcde").body, "abcde");
  EXPECT_EQ(answer_of(in_chunks + "0a\r\n0123456789\r\n0\r\n\r\n").body, "abc0123456789");
  EXPECT_EQ(answer_of("").status, 0);
  for (const std::string& cut :
       {with_length + "abcd", in_chunks, in_chunks + "a\r\n01234", in_chunks + "0\r\n",
        in_chunks + "{}\r\n\r\n", in_chunks + "\r\n", in_chunks + "0x\r\n\r\n"}) {
    EXPECT_THROW(answer_of(cut), std::runtime_error) << cut;
  }
}

}  // namespace
}  // namespace troika::test_support
