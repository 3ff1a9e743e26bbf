#include "base/option_names.h"

namespace troika {
namespace {

constexpr std::string_view kOpen = "‹", kClose = "›";

}  // namespace

std::string with_option_names(std::string_view message,
                              const std::function<std::string(std::string_view)>& name_of) {
  std::string named;
  while (true) {
    const size_t open = message.find(kOpen);
    const size_t begin = open + kOpen.size();
    const size_t close = open == message.npos ? message.npos : message.find(kClose, begin);
    if (close == message.npos) return named.append(message);
    named.append(message.substr(0, open));
    named += name_of(message.substr(begin, close - begin));
    message.remove_prefix(close + kClose.size());
  }
}

}  // namespace troika
