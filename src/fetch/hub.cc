#include "fetch/hub.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/os_error.h"
#include "fetch/url.h"

namespace troika::fetch {
namespace {

constexpr int kMostRedirections = 8;
constexpr int kMostPages = 20;
constexpr size_t kMostPageBytes = 8 << 20;  // a page has 1000 entries of a few hundred bytes
constexpr int kMostListSeconds = 120;

bool is_redirection(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

Hub::Hub(Transport& transport, std::string endpoint, std::string token)
    : transport_(&transport), endpoint_(std::move(endpoint)), token_(std::move(token)) {
  while (endpoint_.ends_with('/')) endpoint_.pop_back();
  origin_ = origin_of(endpoint_);
  if (origin_.empty() || endpoint_.find_first_of("?#") != std::string::npos) {
    throw UsageError(fmt::format(
        "HF_ENDPOINT is {}, which is no address of a hub. Write https://HOST, or unset it.",
        troika::quoted(endpoint_)));
  }
  // The token must not be able to add a line to a request, and its text stays out of the message.
  if (std::any_of(token_.begin(), token_.end(), [](char c) { return c <= 0x20 || c > 0x7e; })) {
    throw UsageError("HF_TOKEN holds blanks or other characters that no token has.");
  }
}

void Hub::refuse(const HttpHead& head, const std::string& name, const std::string& origin) const {
  // A status says something about repositories and tokens only where the hub itself has answered.
  if (origin != origin_) {
    throw Error(
        fmt::format("{}: {} sends us on to {}, which answers with the status {}. Try again "
                    "later.",
                    name, origin_, origin, head.status));
  }
  const std::string tokens = "with a token of an account that may read it in HF_TOKEN";
  switch (head.status) {
    case 401:
      throw Error(fmt::format(
          "{}: {} does not show it to {}: there is no such repository, or it is not public. Check "
          "the spelling, or try again {}.",
          name, origin_, token_.empty() ? "strangers" : "the owner of this HF_TOKEN", tokens));
    case 403:
      throw Error(fmt::format(
          "{}: {} refuses it. Its owner may want a licence to be accepted first, on its page "
          "there; then try again {}.",
          name, origin_, tokens));
    case 404:
      throw Error(
          fmt::format("{}: {} has no such repository or file. Check the spelling.", name, origin_));
    case 429: {
      const auto seconds = parse_number(head.field("retry-after"));
      throw Error(fmt::format("{}: {} has answered too many questions from here. Try again {}{}.",
                              name, origin_,
                              seconds ? fmt::format("in {} s", *seconds) : "in some minutes",
                              token_.empty() ? "; with a token in HF_TOKEN it allows more" : ""));
    }
    default:
      throw Error(fmt::format("{}: {} answers with the status {}{}. Try again later.", name,
                              origin_, head.status,
                              head.status >= 500 ? ", a trouble of its own" : ""));
  }
}

std::string Hub::follow(HttpRequest request, const std::string& name, const HttpSink& sink,
                        std::string* asked_origin) const {
  const std::vector<std::string> fields = request.fields;
  for (int i = 0; i <= kMostRedirections; ++i) {
    const std::string origin = origin_of(request.url);
    *asked_origin = origin;
    request.fields = fields;
    if (!token_.empty() && origin == origin_) {
      request.fields.push_back("Authorization: Bearer " + token_);
    }
    bool is_redirected = false;
    std::string location;
    const std::string failure = transport_->get(request, {[&](const HttpHead& head) {
                                                            is_redirected =
                                                                is_redirection(head.status);
                                                            if (!is_redirected)
                                                              return sink.head(head);
                                                            location = head.field("location");
                                                            return false;
                                                          },
                                                          sink.body});
    if (!is_redirected) return failure;
    const std::string next = resolved(location, request.url);
    const std::string target = origin_of(next);
    if (target.empty() || (origin.starts_with("https:") && !target.starts_with("https:"))) {
      throw Error(fmt::format("{}: {} sends us on to {}, where no file can safely be had.", name,
                              origin, troika::quoted(location)));
    }
    request.url = next;
  }
  throw Error(
      fmt::format("{}: {} sends us from one address to the next without an end.", name, origin_));
}

Listing Hub::list(const ModelName& model) const {
  const std::string name = model.text();
  Listing listing;
  HttpRequest request;
  request.url =
      fmt::format("{}/api/models/{}/tree/main?recursive=true", endpoint_, model.repository());
  request.most_seconds = kMostListSeconds;
  for (int page = 0; page < kMostPages; ++page) {
    std::string text, link, origin;
    const HttpSink sink = {
        [&](const HttpHead& head) {
          if (head.status != 200) refuse(head, name, origin);
          link = head.field("link");
          return true;
        },
        [&](std::span<const std::byte> bytes) {
          if (text.size() + bytes.size() > kMostPageBytes) {
            throw Error(fmt::format("{}: {} sends a list of files without an end.", name, origin_));
          }
          text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return true;
        }};
    const std::string failure = follow(request, name, sink, &origin);
    if (!failure.empty()) {
      throw HubOutOfReach(fmt::format(
          "{}: {} cannot be asked: {}. Check the connection; a model that was downloaded before "
          "needs none.",
          name, origin, failure));
    }
    add_page(text, name, &listing);
    link = next_page(link);
    if (link.empty()) return listing;
    request.url = resolved(link, request.url);
    if (origin_of(request.url) != origin_) {
      throw Error(fmt::format("{}: {} says that its list goes on at another host, {}.", name,
                              origin_, troika::quoted(link)));
    }
  }
  throw Error(fmt::format("{}: {} sends a list of files without an end.", name, origin_));
}

std::string Hub::get(const ModelName& model, const std::string& path, uint64_t offset,
                     const std::string& version, const HttpSink& sink) const {
  HttpRequest request;
  request.url =
      fmt::format("{}/{}/resolve/main/{}", endpoint_, model.repository(), percent_encoded(path));
  if (offset > 0) request.fields.push_back(fmt::format("Range: bytes={}-", offset));
  if (offset > 0 && !version.empty()) request.fields.push_back("If-Range: " + version);
  const std::string name = model.repository() + "/" + path;
  std::string origin;
  const HttpSink checked = {[&](const HttpHead& head) {
                              const int status = head.status;
                              if (status != 200 && status != 206 && status != 416 && status < 500) {
                                refuse(head, name, origin);
                              }
                              return sink.head(head);
                            },
                            sink.body};
  return follow(request, name, checked, &origin);
}

}  // namespace troika::fetch
