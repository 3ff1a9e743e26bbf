#include "fetch/curl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "base/error.h"
#include "fetch/curl_api.h"

namespace troika::fetch {
namespace {

// A server that sends nothing for so long is taken to be gone.
constexpr long kSilenceSeconds = 30;
constexpr long kConnectSeconds = 20;
constexpr size_t kMostHeadBytes = 256 * 1024;

// The state that the callbacks of one request share.
struct Exchange {
  const curl::Api* api;
  curl::Handle* handle;
  const HttpSink* sink;
  std::string url;
  HttpHead head;
  size_t head_bytes = 0;
  bool is_head_told = false;
  bool is_stopped = false;  // the sink has stopped the request
  std::exception_ptr thrown;

  // Runs an action and keeps its exception, because exceptions must not go through the C code of
  // libcurl.
  template <typename Action>
  bool guarded(const Action& action) {
    try {
      is_stopped = !action();
    } catch (...) {
      thrown = std::current_exception();
      is_stopped = true;
    }
    return !is_stopped;
  }

  // Notes a line of the head. Throws Error where the head is too long.
  bool note(std::string_view line) {
    head_bytes += line.size();
    if (head_bytes > kMostHeadBytes) {
      throw Error(fmt::format("{}: the answer has a head of more than {} KiB, which no hub sends.",
                              url, kMostHeadBytes / 1024));
    }
    // An earlier head belongs to a 1xx or to a proxy's answer.
    if (line.starts_with("HTTP/")) head.fields.clear();
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    std::string_view value = line.substr(colon + 1);
    const size_t begin = value.find_first_not_of(" \t");
    const size_t end = value.find_last_not_of(" \t\r\n");
    value = begin == std::string_view::npos ? "" : value.substr(begin, end + 1 - begin);
    head.fields[name] = value;
    return true;
  }

  bool tell_head() {
    if (is_head_told) return true;
    is_head_told = true;
    long status = 0;
    api->easy_getinfo(handle, curl::kResponseCode, &status);
    head.status = static_cast<int>(status);
    return guarded([this] { return sink->head(head); });
  }
};

size_t take_field(char* bytes, size_t size, size_t n, void* user) {
  const std::string_view line(bytes, size * n);
  auto& exchange = *static_cast<Exchange*>(user);
  return exchange.guarded([&] { return exchange.note(line); }) ? size * n : 0;
}

size_t take_body(char* bytes, size_t size, size_t n, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (!exchange.tell_head()) return 0;
  const auto piece = std::as_bytes(std::span(bytes, size * n));
  return exchange.guarded([&] { return exchange.sink->body(piece); }) ? size * n : 0;
}

class CurlTransport : public Transport {
 public:
  explicit CurlTransport(const curl::Api& api) : api_(api), handle_(api.easy_init()) {
    if (handle_ == nullptr) throw Error("libcurl cannot be started; there may be no memory left.");
  }
  ~CurlTransport() override { api_.easy_cleanup(handle_); }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  std::string get(const HttpRequest& request, const HttpSink& sink) override {
    Exchange exchange{&api_, handle_, &sink, request.url, {}, 0, false, false, nullptr};
    curl::List* fields = nullptr;
    for (const std::string& field : request.fields) {
      fields = api_.slist_append(fields, field.c_str());
    }
    // A reset keeps connections open from one request to the next.
    api_.easy_reset(handle_);
    const auto set = [this](int option, auto value) { api_.easy_setopt(handle_, option, value); };
    set(curl::kUrl, request.url.c_str());
    set(curl::kProtocols, curl::kHttpAndHttps);
    set(curl::kUserAgent, "troika/" TROIKA_VERSION);
    set(curl::kHttpHeader, fields);
    set(curl::kNoSignal, 1L);
    set(curl::kConnectTimeout, kConnectSeconds);
    set(curl::kLowSpeedLimit, 1L);
    set(curl::kLowSpeedTime, kSilenceSeconds);
    set(curl::kTimeout, static_cast<long>(request.most_seconds));
    set(curl::kHeaderFunction, static_cast<curl::TakeBytes>(take_field));
    set(curl::kHeaderData, static_cast<void*>(&exchange));
    set(curl::kWriteFunction, static_cast<curl::TakeBytes>(take_body));
    set(curl::kWriteData, static_cast<void*>(&exchange));
    const int code = api_.easy_perform(handle_);
    api_.slist_free_all(fields);
    // An empty body calls no callback.
    if (code == curl::kOk && !exchange.is_stopped) exchange.tell_head();
    if (exchange.thrown != nullptr) std::rethrow_exception(exchange.thrown);
    if (code == curl::kOk || exchange.is_stopped) return {};
    std::string why = api_.easy_strerror(code);
    if (code == curl::kBadCertificate || code == curl::kNoCertificates) {
      why += " (the package ca-certificates may be missing, or the clock wrong)";
    }
    return why;
  }

 private:
  curl::Api api_;
  curl::Handle* handle_;
};

#ifndef TROIKA_STATIC

void* open_library(const char* library) {
  if (library != nullptr) return dlopen(library, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (void* opened = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return opened;
  }
  return nullptr;
}

template <typename Function>
void find_symbol(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr) {
    throw Error(
        fmt::format("libcurl has no function {}. Install Debian's package libcurl4.", name));
  }
}

#endif

}  // namespace

std::unique_ptr<Transport> make_curl_transport(const char* library) {
#ifdef TROIKA_STATIC
  (void)library;
  throw Error(
      "This program is one static file, which cannot load libcurl: it does not download models. "
      "Download the GGUF file with another program and give its path.");
#else
  // The library is never closed, because libcurl keeps threads and memory of its own until the
  // program ends.
  void* opened = open_library(library);
  if (opened == nullptr) {
    throw Error(
        "Models are downloaded with libcurl, which is not installed. Install it ('sudo apt install "
        "libcurl4 ca-certificates'), or download the GGUF file with another program and give its "
        "path.");
  }
  curl::Api api = {};
  find_symbol(opened, "curl_global_init", &api.global_init);
  find_symbol(opened, "curl_easy_init", &api.easy_init);
  find_symbol(opened, "curl_easy_reset", &api.easy_reset);
  find_symbol(opened, "curl_easy_setopt", &api.easy_setopt);
  find_symbol(opened, "curl_easy_perform", &api.easy_perform);
  find_symbol(opened, "curl_easy_getinfo", &api.easy_getinfo);
  find_symbol(opened, "curl_easy_cleanup", &api.easy_cleanup);
  find_symbol(opened, "curl_easy_strerror", &api.easy_strerror);
  find_symbol(opened, "curl_slist_append", &api.slist_append);
  find_symbol(opened, "curl_slist_free_all", &api.slist_free_all);
  if (api.global_init(curl::kGlobalDefault) != curl::kOk) {
    throw Error("libcurl cannot be started; install Debian's package libcurl4 anew.");
  }
  return std::make_unique<CurlTransport>(api);
#endif
}

}  // namespace troika::fetch
