// Tests what `troika serve` says to options that make no sense.
#include "tests/program/troika.h"

namespace troika::test {
namespace {

class ServeOptions : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::string model_;
};

TEST_F(ServeOptions, NamesOfTheMachineStandAlone) {
  for (const std::string name : {"box.example.org:80", "http://box", "*.example.org"}) {
    expect_refusal(troika({"serve", model_, "--allow-host", name}), 2, {"--allow-host", name});
  }
  expect_refusal(troika({"serve", model_, "--socket", folder_.file("s"), "--allow-host", "box"}), 2,
                 {"--allow-host", "socket"});
}

TEST_F(ServeOptions, ASocketHasNoPort) {
  for (const auto& [name, value] : {std::pair("--port", "0"), std::pair("--host", "127.0.0.1")}) {
    expect_refusal(troika({"serve", model_, "--socket", folder_.file("s"), name, value}), 2,
                   {name, "--socket"});
  }
  expect_refusal(troika({"serve", model_, "--ping=nan"}), 2, {"--ping"});
}

}  // namespace
}  // namespace troika::test
