#include <cstdint>
#include <cstdlib>

#include "http/parser.h"

namespace {

using troika::http::Parser;
using troika::http::Request;

// Returns, as text, the requests and refusals that a parser reads when the bytes come in parts of
// `part` bytes.
std::string read_all(std::string_view bytes, size_t part, const troika::http::Limits& limits) {
  std::string seen;
  Parser parser(limits);
  while (!bytes.empty() && !parser.is_refused()) {
    const size_t n = parser.push(bytes.substr(0, part));
    if (n == 0) std::abort();
    bytes.remove_prefix(n);
    if (parser.has_new_head() && parser.n_body_bytes() > 0) std::abort();
    if (parser.n_body_bytes() > limits.body_bytes) std::abort();
    if (!parser.is_done()) continue;
    const Request request = parser.take();
    if (request.headers.size() > static_cast<size_t>(limits.n_headers)) std::abort();
    seen += request.method + " " + request.path + "?" + request.query + "\n" + request.body + "\n";
    for (const auto& header : request.headers) seen += header.name + "=" + header.value + "\n";
  }
  return seen + (parser.is_refused() ? "refused" : "open");
}

}  // namespace

// Checks that the same bytes make the same requests and refusals, however they are cut into parts.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const troika::http::Limits limits = {
      .target_bytes = 64, .head_bytes = 512, .n_headers = 6, .body_bytes = 100};
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_all(bytes, size + 1, limits);
  if (read_all(bytes, 1, limits) != whole || read_all(bytes, 7, limits) != whole) std::abort();
  return 0;
}
