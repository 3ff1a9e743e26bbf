#include "server/refusals.h"

#include <fmt/format.h>

#include "base/option_names.h"
#include "base/os_error.h"
#include "server/writer.h"

namespace troika::server {

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string for_clients(std::string_view why) {
  return with_option_names(why,
                           [](std::string_view option) { return fmt::format("--{}", option); });
}

http::Response refusal_response(const std::string& path, const Refused& refused) {
  Json error;
  error["message"] = for_clients(refused.what());
  error["type"] = error_type(refused.status);
  Json body;
  if (path.starts_with("/v1/messages")) {
    body = {{"type", "error"}, {"error", error}, {"request_id", nullptr}};
  } else {
    if (!refused.type.empty()) error["type"] = refused.type;
    error["param"] = refused.field.empty() ? Json(nullptr) : Json(refused.field);
    error["code"] = refused.code.empty() ? Json(nullptr) : Json(refused.code);
    error.update(refused.details);
    body = {{"error", error}};
  }
  http::Response response;
  response.status = refused.status;
  response.body = dump(body);
  if (refused.retry_after_s > 0) {
    response.headers.push_back({"retry-after", fmt::format("{}", refused.retry_after_s)});
  }
  if (!refused.allowed.empty()) response.headers.push_back({"allow", refused.allowed});
  if (refused.status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
  return response;
}

http::Response failure_response(const Failure& failure) {
  return refusal_response("", Refused(failure.status(), failure.why));
}

std::string why_unknown(const std::string& path) {
  struct Known {
    std::string_view begin, why;
  };
  static constexpr Known kKnown[] = {
      {"/v1/embeddings", "This server computes no embeddings, only text."},
      {"/embedding", "This server computes no embeddings, only text."},
      {"/v1/rerank", "This server ranks nothing, it computes only text."},
      {"/rerank", "This server ranks nothing, it computes only text."},
      {"/v1/images", "This server draws no images, it computes only text."},
      {"/v1/audio", "This server hears and speaks nothing, it computes only text."},
      {"/lora-adapters", "This server knows no LoRA adapters. Merge one into the model's file."},
      {"/v1/responses/", "This server keeps no responses: send the conversation with each."},
      {"/infill", "This server fills no gaps in texts. Use /v1/completions."},
      {"/v1/files", "This server keeps no files."},
      {"/v1/batches", "This server keeps no batches: send requests at once, they share passes."},
  };
  for (const Known& known : kKnown) {
    if (path.starts_with(known.begin)) return std::string(known.why);
  }
  return fmt::format("This server has nothing at {}. docs/server.md lists what it has.",
                     troika::quoted(path));
}

}  // namespace troika::server
