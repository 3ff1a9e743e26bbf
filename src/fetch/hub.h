// A hub as Hugging Face documents its own: which files a repository has, and their bytes.
//   GET ENDPOINT/api/models/ORG/REPO/tree/main?recursive=true   a page of JSON; Link: the next one
//   GET ENDPOINT/ORG/REPO/resolve/main/PATH                     the bytes, often by a redirection
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "fetch/http.h"
#include "fetch/listing.h"
#include "fetch/name.h"

namespace troika::fetch {

// Says that no answer came at all, as without a connection.
class HubOutOfReach : public Error {
 public:
  using Error::Error;
};

class Hub {
 public:
  // `endpoint` is what HF_ENDPOINT gives. `token` may be empty; it goes to the endpoint's own host
  // and nowhere else. Throws UsageError where either is impossible.
  Hub(Transport& transport, std::string endpoint, std::string token);

  // Returns the files of a repository. Throws HubOutOfReach where no answer comes, and another
  // Error where the answer is no list or refuses one.
  Listing list(const ModelName& model) const;

  // Asks for the file's bytes from `offset` on; if `version` is not empty (version_of), for all
  // bytes where the hub has another version now. The sink gets an answer with the status 200, 206,
  // 416 or 5xx; for any other status, throws an Error that says what to do. Returns what
  // Transport::get returns.
  std::string get(const ModelName& model, const std::string& path, uint64_t offset,
                  const std::string& version, const HttpSink& sink) const;

 private:
  // Follows redirections. `asked_origin` is always the origin of the address that is being asked.
  std::string follow(HttpRequest request, const std::string& name, const HttpSink& sink,
                     std::string* asked_origin) const;
  [[noreturn]] void refuse(const HttpHead& head, const std::string& name,
                           const std::string& origin) const;

  Transport* transport_;
  std::string endpoint_;  // has no slash at its end
  std::string origin_;
  std::string token_;
};

}  // namespace troika::fetch
