#include "server/info/info.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>

#include "base/os_error.h"
#include "server/llama/settings.h"

namespace troika::server {
namespace {

http::Response json_response(const Json& json) {
  http::Response response;
  response.body = dump(json);
  return response;
}

constexpr std::string_view kModels = "/models";

Json openai_model(const Context& context) {
  return {{"id", context.options().model_name},
          {"object", "model"},
          {"created", context.started_s()},
          {"owned_by", "troika"},
          {"meta", {{"n_vocab", context.tokenizer().n_tokens()}, {"n_ctx", context.n_context()}}}};
}

Json anthropic_model(const Context& context) {
  const std::string& name = context.options().model_name;
  const std::time_t started = context.started_s();
  std::tm utc = {};
  gmtime_r(&started, &utc);
  char date[32];
  const size_t n = std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", std::string(date, n)},
          {"lifecycle", "active"},
          {"max_input_tokens", context.n_context()},
          {"max_tokens", context.n_context()}};
}

// Returns the text with bytes in the place of e.g. "%2F". What is no such code stays as it is.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const code = text.data() + i + 1;
    const bool is_code = text[i] == '%' && text.size() - i > 2 &&
                         std::from_chars(code, code + 2, byte, 16).ptr == code + 2;
    decoded += is_code ? static_cast<char>(byte) : text[i];
    if (is_code) i += 2;
  }
  return decoded;
}

// Adds the names by which clients of llama.cpp look for the server's properties.
void add_llama_props(const Context& context, Json* props) {
  const ServiceOptions& options = context.options();
  Wanted usual;
  usual.sampler = options.sampler;
  Json settings = settings_json(usual);
  if (!options.has_seed) settings["seed"] = -1;  // each request gets a seed of its own
  (*props)["model_path"] = context.engine().file().path();
  (*props)["model_alias"] = options.model_name;
  (*props)["total_slots"] = options.n_parallel;
  (*props)["default_generation_settings"] = {{"n_ctx", context.n_context()}, {"params", settings}};
  (*props)["build_info"] = "troika-" TROIKA_VERSION;
}

// Throws Refused for a path that whoever started the server has switched off.
void check_shown(bool is_shown, const char* path) {
  if (is_shown) return;
  throw Refused(501, fmt::format("{} is switched off on this server.", path));
}

void add_metric(std::string* text, const char* prefix, const char* name, const char* type,
                const char* help, double value) {
  *text += fmt::format("# HELP {0}{1} {2}\n# TYPE {0}{1} {3}\n{0}{1} {4}\n", prefix, name, help,
                       type, value);
}

// Adds the figures that llama.cpp has too, by the names that boards made for it look for.
void add_llama_metrics(std::string* text, const Worker::Figures& f) {
  const auto add = [&](const char* name, const char* type, const char* help, double value) {
    add_metric(text, "llamacpp:", name, type, help, value);
  };
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const auto rate = [](double n, double seconds) { return seconds > 0.0 ? n / seconds : 0.0; };
  add("prompt_tokens_total", "counter", "Tokens of prompts that were computed.",
      number(f.n_computed_tokens));
  add("prompt_tokens_cached_total", "counter", "Tokens of prompts that were known.",
      number(f.n_prompt_tokens - f.n_computed_tokens));
  add("prompt_seconds_total", "counter", "Time until prompts were read.", f.prompt_seconds);
  add("tokens_predicted_total", "counter", "Tokens of answers.", number(f.n_tokens));
  add("tokens_predicted_seconds_total", "counter", "Time of answers behind their first token.",
      f.answer_seconds);
  add("n_decode_total", "counter", "Passes through the model.", number(f.n_passes));
  add("n_tokens_max", "counter", "The longest prompt with its answer.", number(f.n_most_tokens));
  add("prompt_tokens_seconds", "gauge", "Tokens of prompts in a second.",
      rate(number(f.n_computed_tokens), f.prompt_seconds));
  add("predicted_tokens_seconds", "gauge", "Tokens of an answer in a second.",
      rate(number(f.n_tokens - f.n_answers), f.answer_seconds));
  add("spec_decode_num_drafts_total", "counter", "Passes of an answer that verified a draft.",
      number(f.n_drafts));
  add("spec_decode_num_draft_tokens_total", "counter", "Tokens that were guessed and verified.",
      number(f.n_draft_tokens));
  add("spec_decode_num_accepted_tokens_total", "counter", "Of these, those that were right.",
      number(f.n_accepted_tokens));
  add("n_busy_slots_per_decode", "gauge", "Answers in a step.",
      rate(number(f.n_step_answers), number(f.n_steps)));
  add("requests_processing", "gauge", "Answers that are being computed.",
      number(std::ssize(f.running)));
  add("requests_deferred", "gauge", "Answers that wait for their turn.", f.n_waiting);
}

}  // namespace

http::Response show_health(const Context&, const http::ServerStatistics*) {
  return json_response({{"status", "ok"}});
}

http::Response show_models(const Context& context, const http::Request& request) {
  const std::string& name = context.options().model_name;
  const bool is_anthropic = request.header("anthropic-version") != nullptr;
  const Json model = is_anthropic ? anthropic_model(context) : openai_model(context);
  const size_t at = request.path.find(kModels) + kModels.size();
  if (at < request.path.size()) {
    const std::string asked = percent_decoded(std::string_view(request.path).substr(at + 1));
    if (asked == name) return json_response(model);
    throw Refused(404,
                  fmt::format("This server has no model {}. Its one model is {}; requests may name "
                              "any.",
                              troika::quoted(asked), troika::quoted(name)),
                  "model", "model_not_found");
  }
  const Json list = Json::array({model});
  if (!is_anthropic) return json_response({{"object", "list"}, {"data", list}});
  return json_response(
      {{"data", list}, {"has_more", false}, {"first_id", name}, {"last_id", name}});
}

bool is_of_models(std::string_view path) {
  if (path.starts_with("/v1")) path.remove_prefix(3);
  if (!path.starts_with(kModels)) return false;
  path.remove_prefix(kModels.size());
  return path.empty() || (path.front() == '/' && path.size() > 1);
}

http::Response show_props(const Context& context, const http::ServerStatistics*) {
  const ServiceOptions& options = context.options();
  Json props;
  props["model"] = options.model_name;
  props["context"] = context.n_context();
  props["parallel"] = options.n_parallel;
  props["queue"] = options.n_queue;
  props["queue_unread"] = options.n_unread;
  props["queue_grammars"] = options.n_slow_grammars;
  props["ping_s"] = options.ping_seconds;
  props["chat_template"] =
      context.has_chat() ? Json(context.chat().format.source()) : Json(nullptr);
  if (context.has_tool_chat()) {
    props["chat_template_tool_use"] = context.chat(/*has_tools=*/true).format.source();
  }
  if (const KeptPrefixes* const kept = context.worker().kept(); kept != nullptr) {
    const KeptPrefixes::Figures f = kept->figures();
    props["kept"] = {{"bytes", f.bytes},
                     {"most_bytes", f.most_bytes},
                     {"files", f.n_files},
                     {"block_tokens", kept->block_tokens()},
                     {"shared", options.keep.is_shared},
                     {"problem", f.problem.empty() ? Json(nullptr) : Json(f.problem)}};
  }
  props["text_is_given"] = !options.forced_texts.empty();
  props["defaults"] = {{"temperature", decimal_of(options.sampler.temperature)},
                       {"top_k", options.sampler.top_k},
                       {"top_p", decimal_of(options.sampler.top_p)},
                       {"min_p", decimal_of(options.sampler.min_p)}};
  add_llama_props(context, &props);
  return json_response(props);
}

http::Response show_slots(const Context& context, const http::ServerStatistics*) {
  check_shown(context.options().shows_slots, "/slots");
  // Answers that wait for their readers take no place, so more answers than places may run.
  Json slots = Json::array();
  for (const Worker::View& view : context.worker().figures().running) {
    slots.push_back({{"id", std::ssize(slots)},
                     {"is_processing", true},
                     {"n_ctx", context.n_context()},
                     {"answer", view.number},
                     {"prompt_tokens", view.n_prompt},
                     {"tokens", view.n_tokens},
                     {"waits_for_its_reader", view.is_paused}});
  }
  while (std::ssize(slots) < context.options().n_parallel) {
    slots.push_back(
        {{"id", std::ssize(slots)}, {"is_processing", false}, {"n_ctx", context.n_context()}});
  }
  return json_response(slots);
}

http::Response show_metrics(const Context& context, const http::ServerStatistics* statistics) {
  check_shown(context.options().shows_metrics, "/metrics");
  const Worker::Figures f = context.worker().figures();
  std::string text;
  const auto counter = [&](const char* name, const char* help, double value) {
    add_metric(&text, "troika_", name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, double value) {
    add_metric(&text, "troika_", name, "gauge", help, value);
  };
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  counter("answers_total", "Answers that have ended.", number(f.n_answers));
  counter("answers_cancelled_total", "Answers whose client left.", number(f.n_cancelled));
  counter("answers_failed_total", "Answers that an error ended.", number(f.n_failed));
  counter("prompt_tokens_total", "Tokens of prompts.", number(f.n_prompt_tokens));
  counter("prompt_tokens_computed_total", "Tokens of prompts that were not known from before.",
          number(f.n_computed_tokens));
  counter("tokens_total", "Tokens of answers.", number(f.n_tokens));
  counter("passes_total", "Passes through the model.", number(f.n_passes));
  counter("busy_seconds_total", "Time in passes.", f.busy_seconds);
  gauge("answers_running", "Answers that are being computed.", number(std::ssize(f.running)));
  gauge("answers_waiting", "Answers that wait for their turn.", f.n_waiting);
  if (const KeptPrefixes* const kept = context.worker().kept(); kept != nullptr) {
    const KeptPrefixes::Figures k = kept->figures();
    gauge("kept_bytes", "Prefixes on disk.", static_cast<double>(k.bytes));
    counter("kept_tokens_saved_total", "Tokens whose keys and values went to the disk.",
            number(k.n_tokens_saved));
    counter("kept_tokens_loaded_total", "Tokens whose keys and values came from the disk.",
            number(k.n_tokens_loaded));
    counter("kept_failed_total", "Writes that the disk did not take.", number(k.n_failed));
  }
  if (statistics != nullptr) {
    counter("http_requests_total", "Requests.", number(statistics->n_requests));
    counter("http_refused_total", "Requests that were no good HTTP, or came too slowly.",
            number(statistics->n_refused));
    gauge("http_connections", "Open connections.", statistics->n_open);
  }
  add_llama_metrics(&text, f);
  http::Response response;
  response.headers.push_back({"Process-Start-Time-Unix", fmt::format("{}", context.started_s())});
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = text;
  return response;
}

}  // namespace troika::server
