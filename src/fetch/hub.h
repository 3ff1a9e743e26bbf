// A hub as Hugging Face documents its own: which files a repository has, and their bytes.
//   GET ENDPOINT/api/models/ORG/REPO/tree/main?recursive=true   a page of JSON; Link: the next one
//   GET ENDPOINT/ORG/REPO/resolve/main/PATH                     the bytes, often by a redirection
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fetch/http.h"
#include "fetch/listing.h"
#include "fetch/name.h"

namespace troika::fetch {

class Hub {
 public:
  // `endpoint` as HF_ENDPOINT gives it; `token`, which may be empty, goes to the endpoint's own
  // host and nowhere else. Throws UsageError for what cannot be one.
  Hub(Transport& transport, std::string endpoint, std::string token);

  // Throws Error for an answer that is no list and for a status that refuses one.
  std::vector<HubFile> list(const ModelName& model) const;

  // Asks for the file's bytes from `offset` on. The sink gets an answer with the status 200, 206,
  // 416 or 5xx; for another one an Error says what to do. Returns as Transport::get.
  std::string get(const ModelName& model, const std::string& path, uint64_t offset,
                  const HttpSink& sink) const;

 private:
  // `asked_origin` is always that of the address that is being asked.
  std::string follow(HttpRequest request, const std::string& name, const HttpSink& sink,
                     std::string* asked_origin) const;
  [[noreturn]] void refuse(const HttpHead& head, const std::string& name,
                           const std::string& origin) const;

  Transport* transport_;
  std::string endpoint_;  // without a slash at its end
  std::string origin_;
  std::string token_;
};

}  // namespace troika::fetch
