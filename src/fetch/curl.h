// HTTP by libcurl, which is loaded when it is needed: the program runs without it, and building the
// program needs nothing of it.
#pragma once

#include <memory>

#include "fetch/http.h"

namespace troika::fetch {

// Makes a transport. Throws an Error that says what to install where there is no libcurl, and in a
// static program, which cannot load it. `library` is a file to load instead, for tests.
std::unique_ptr<Transport> make_curl_transport(const char* library = nullptr);

}  // namespace troika::fetch
