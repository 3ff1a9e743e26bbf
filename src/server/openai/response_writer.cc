#include "server/openai/response_writer.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <span>
#include <utility>

#include "server/openai/usage.h"
#include "server/refusals.h"
#include "text/utf8.h"

namespace troika::server {
namespace {

// Limits the tokens of one delta among which those of its text are looked for, all against all.
constexpr size_t kMostSpelled = 64;

// Returns a list with an entry for each token; an empty one if `tokenizer` is null.
Json likelihoods(std::span<const TokenLogprobs> tokens, const text::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? Json::array() : logprobs_json(tokens, *tokenizer)["content"];
}

// Returns the list for an event, which tells tokens without their bytes.
Json without_bytes(Json list) {
  for (Json& token : list) {
    token.erase("bytes");
    for (Json& other : token["top_logprobs"]) other.erase("bytes");
  }
  return list;
}

// Returns those tokens that spell a text, with as little else as may be: what stands around them
// was a mark that nobody is shown. Returns all if none of them spell it, as where a part of the
// text came with an earlier token.
std::span<const TokenLogprobs> tokens_of(const std::string& text,
                                         std::span<const TokenLogprobs> tokens,
                                         const text::Tokenizer& tokenizer) {
  std::span<const TokenLogprobs> found = tokens;
  size_t fewest_bytes = std::numeric_limits<size_t>::max();
  for (size_t begin = 0; begin < tokens.size(); ++begin) {
    std::string spelled;
    for (size_t end = begin; end < tokens.size() && spelled.size() < fewest_bytes; ++end) {
      spelled += tokenizer.piece(tokens[end].taken.token, /*render_special=*/true);
      if (spelled.size() >= fewest_bytes ||
          text::replace_invalid_utf8(spelled).find(text) == std::string::npos) {
        continue;
      }
      fewest_bytes = spelled.size();
      found = tokens.subspan(begin, end + 1 - begin);
    }
  }
  return found;
}

Json part_json(const Block& block, const Json& logprobs) {
  if (block.kind == Block::Kind::kThought)
    return {{"type", "reasoning_text"}, {"text", block.text}};
  return {{"type", "output_text"},
          {"text", block.text},
          {"annotations", Json::array()},
          {"logprobs", logprobs}};
}

// Returns a block as an item of the output. `parts` is what the item holds: nothing at first.
Json item_json(const Block& block, const std::string& id, const char* status, const Json& parts) {
  switch (block.kind) {
    case Block::Kind::kText:
      return {{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", parts}};
    case Block::Kind::kThought:
      return {{"id", id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", Json::array()},
              {"content", parts}};
    case Block::Kind::kCall:
      break;
  }
  return {{"id", id},           {"type", "function_call"},
          {"status", status},   {"call_id", block.id},
          {"name", block.name}, {"arguments", block.text}};
}

const char* id_prefix(Block::Kind kind) {
  if (kind == Block::Kind::kText) return "msg_";
  return kind == Block::Kind::kThought ? "rs_" : "fc_";
}

std::string delta_name(Block::Kind kind, const char* end) {
  const char* const begin = kind == Block::Kind::kText      ? "response.output_text"
                            : kind == Block::Kind::kThought ? "response.reasoning_text"
                                                            : "response.function_call_arguments";
  return std::string(begin) + end;
}

Json response_usage(const Ending& ending) {
  const engine::Generated& g = ending.generated;
  return {{"input_tokens", g.n_prompt},
          {"input_tokens_details",
           {{"cached_tokens", g.n_prompt - g.n_computed}, {"cache_write_tokens", 0}}},
          {"output_tokens", g.tokens.size()},
          {"output_tokens_details", {{"reasoning_tokens", ending.n_thought_tokens}}},
          {"total_tokens", static_cast<size_t>(g.n_prompt) + g.tokens.size()}};
}

// Returns the text of an object's fields without the braces. REQUIRES: there are fields.
std::string fields_text(const Json& object) {
  const std::string text = dump(object);
  return text.substr(1, text.size() - 2);
}

}  // namespace

std::string echo_text(const Json& body, const Wanted& wanted) {
  std::string text;
  const auto add = [&](const char* name, const Json& value) {
    text.append(text.empty() ? "\"" : ",\"").append(name).append("\":").append(dump(value));
  };
  const auto repeat = [&](const char* name, const Json& otherwise) {
    const auto given = body.find(name);
    add(name, given == body.end() ? otherwise : *given);
  };
  repeat("instructions", nullptr);
  repeat("max_output_tokens", nullptr);
  repeat("metadata", Json::object());
  repeat("parallel_tool_calls", true);
  add("previous_response_id", nullptr);
  repeat("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  add("temperature", decimal_of(wanted.sampler.temperature));
  repeat("text", {{"format", {{"type", "text"}}}});
  repeat("tool_choice", "auto");
  repeat("tools", Json::array());
  add("top_p", decimal_of(wanted.sampler.top_p));
  add("truncation", "disabled");
  if (body.contains("top_logprobs")) add("top_logprobs", std::max(wanted.n_logprobs, 0));
  if (body.contains("user")) add("user", body["user"]);
  return text;
}

ResponseWriter::ResponseWriter(std::string model, const std::shared_ptr<http::Exchange>& exchange,
                               bool is_stream, std::string echo, const text::Tokenizer* tokenizer)
    : created_(std::time(nullptr)),
      model_(std::move(model)),
      is_stream_(is_stream),
      echo_(std::move(echo)),
      held_(exchange->hold(echo_.size())),
      tokenizer_(tokenizer),
      exchange_(exchange),
      events_(exchange) {
  if (!is_stream_) return;
  for (const char* const type : {"response.created", "response.in_progress"}) {
    first_events_.push_back(response_event(type, {.status = "in_progress"}));
  }
}

void ResponseWriter::begin() {
  if (!is_stream_) return;
  events_.begin();
  for (std::string& event : first_events_) events_.line(std::move(event));
  first_events_.clear();
}

void ResponseWriter::progress(int /*answer*/, const PromptRead& progress) {
  if (!is_stream_) return;
  events_.line(response_event("response.in_progress", {.status = "in_progress"},
                              {{"prompt_progress", progress_json(progress.prompt)}}));
}

void ResponseWriter::open_block() {
  const Block& block = blocks().back();
  ids_.push_back(random_id(id_prefix(block.kind)));
  logprobs_.clear();
  if (!is_stream_) return;
  send("response.output_item.added",
       {{"output_index", index()},
        {"item", item_json(block, ids_.back(), "in_progress", Json::array())}});
  if (block.kind != Block::Kind::kCall) {
    send_part("response.content_part.added", part_json(block, Json::array()));
  }
}

void ResponseWriter::grow_block(const Delta& delta) {
  const Block& block = blocks().back();
  std::span<const TokenLogprobs> tokens = delta.logprobs;
  if (tokenizer_ != nullptr && block.kind == Block::Kind::kText) {
    if (tokens.size() <= kMostSpelled) tokens = tokens_of(delta.text, tokens, *tokenizer_);
    logprobs_.insert(logprobs_.end(), tokens.begin(), tokens.end());
  }
  if (!is_stream_) return;
  Json event = {{"item_id", ids_.back()}, {"output_index", index()}};
  if (block.kind != Block::Kind::kCall) event["content_index"] = 0;
  event["delta"] = delta.text;
  if (block.kind == Block::Kind::kText) {
    event["logprobs"] = without_bytes(likelihoods(tokens, tokenizer_));
  }
  if (timings()) event["timings"] = timings_json(*timings());
  send(delta_name(block.kind, ".delta"), event);
}

void ResponseWriter::close_block() {
  const Block& block = blocks().back();
  const Json list = likelihoods(logprobs_, tokenizer_);
  const Json part = block.kind == Block::Kind::kCall ? Json() : part_json(block, list);
  items_.push_back(
      item_json(block, ids_.back(), status_of(blocks().size() - 1), Json::array({part})));
  if (!is_stream_) return;
  Json done = {{"item_id", ids_.back()}, {"output_index", index()}};
  if (block.kind == Block::Kind::kCall) {
    done["arguments"] = block.text;
  } else {
    done["content_index"] = 0;
    done["text"] = block.text;
    if (block.kind == Block::Kind::kText) done["logprobs"] = without_bytes(list);
  }
  send(delta_name(block.kind, ".done"), done);
  if (block.kind != Block::Kind::kCall) send_part("response.content_part.done", part);
  send("response.output_item.done", {{"output_index", index()}, {"item", items_.back()}});
}

void ResponseWriter::finish() {
  State state = {.status = is_cut() ? "incomplete" : "completed",
                 .output = std::move(items_),
                 .usage = response_usage(ending())};
  if (is_cut()) state.incomplete_details = {{"reason", "max_output_tokens"}};
  if (is_stream_) {
    Json more;
    if (timings()) more["timings"] = Usage::timings(ending().generated);
    events_.line(
        response_event(is_cut() ? "response.incomplete" : "response.completed", state, more));
    events_.end();
    return;
  }
  http::Response whole;
  add_response(state, &whole.body);
  exchange_->reply(std::move(whole));
}

void ResponseWriter::fail(const Failure& failure) {
  if (!is_stream_) {
    exchange_->reply(failure_response(failure));
    return;
  }
  events_.line(
      response_event("response.failed",
                     {.status = "failed",
                      .error = {{"code", failure.is_of_request ? "invalid_prompt" : "server_error"},
                                {"message", for_clients(failure.why)}}}));
  events_.end();
}

// Says whether the answer has ended before the model was done with it.
bool ResponseWriter::is_cut() const {
  if (!has_ended()) return false;
  const engine::Stop stop = ending().generated.stop;
  return stop == engine::Stop::kLength || stop == engine::Stop::kContext;
}

// Returns the state of a block that is closed: the cut goes through the last one.
const char* ResponseWriter::status_of(size_t block) const {
  const bool ends_early = is_cut() || (has_ended() && ending().cuts_call);
  return ends_early && block + 1 == blocks().size() ? "incomplete" : "completed";
}

// Appends the object to the text.
void ResponseWriter::add_response(const State& state, std::string* text) const {
  *text += "{" + fields_text({{"id", id_},
                              {"object", "response"},
                              {"created_at", created_},
                              {"status", state.status},
                              {"background", false},
                              {"error", state.error},
                              {"incomplete_details", state.incomplete_details},
                              {"model", model_},
                              {"output", state.output}});
  text->append(",").append(echo_);
  if (!state.usage.is_null()) text->append(",\"usage\":").append(dump(state.usage));
  text->append("}");
}

// Returns an event that holds the response, and behind it the fields of `more`, which may be null.
std::string ResponseWriter::response_event(std::string_view type, const State& state,
                                           const Json& more) {
  std::string text = event_head(type) + "{" +
                     fields_text({{"type", type}, {"sequence_number", n_sent_++}}) +
                     ",\"response\":";
  add_response(state, &text);
  if (!more.is_null()) text.append(",").append(fields_text(more));
  return text.append("}").append(kEventEnd);
}

void ResponseWriter::send_part(const char* type, const Json& part) {
  send(type,
       {{"item_id", ids_.back()}, {"output_index", index()}, {"content_index", 0}, {"part", part}});
}

void ResponseWriter::send(const std::string& type, const Json& more) {
  if (!is_stream_) return;
  Json event = {{"type", type}, {"sequence_number", n_sent_++}};
  event.update(more);
  events_.event(event, type);
}

}  // namespace troika::server
