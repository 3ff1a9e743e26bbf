#include "server/llama/text_tools.h"

#include <fmt/format.h>

#include "base/os_error.h"
#include "server/calls/turn.h"

namespace troika::server {
namespace {

// Limits the tokens of a text that one answer tells, with some hundred bytes of memory for each.
constexpr size_t kMostTold = 1'000'000;

void check_told(const Fields& fields, const std::string& field, size_t n_tokens) {
  if (n_tokens <= kMostTold) return;
  fields.fail(field, fmt::format("has {} tokens; an answer tells at most {}. Send it in parts",
                                 n_tokens, kMostTold));
}

void reply(const std::shared_ptr<http::Exchange>& exchange, const Json& json) {
  http::Response response;
  response.body = dump(json);
  exchange->reply(response);
}

// Returns a token's bytes as a text if they are whole characters, and as a list of numbers if not.
Json piece_json(std::string_view piece) {
  const std::string text(piece);
  const bool is_text =
      Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore) == dump(Json(text));
  if (is_text) return text;
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace

engine::Token token_from(const text::Tokenizer& tokenizer, const Json& number,
                         const std::string& field) {
  const bool is_token = number.is_number_integer() && number.get<int64_t>() >= 0 &&
                        number.get<int64_t>() < tokenizer.n_tokens();
  if (is_token) return number.get<engine::Token>();
  throw Refused(
      400,
      fmt::format("The field {} holds {}, which is no token of this model; they are 0 to {}.",
                  troika::quoted(field), troika::quoted(dump(number)), tokenizer.n_tokens() - 1),
      field);
}

std::vector<engine::Token> tokens_from(const text::Tokenizer& tokenizer, const Json& list,
                                       const std::string& field) {
  std::vector<engine::Token> tokens;
  tokens.reserve(list.size());
  for (const Json& one : list) tokens.push_back(token_from(tokenizer, one, field));
  return tokens;
}

void serve_tokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body) {
  Fields fields(body);
  const std::string content = fields.text("content");
  const bool adds_special = fields.flag("add_special");
  const bool parses_special = fields.flag("parse_special", true);
  const bool with_pieces = fields.flag("with_pieces");
  fields.ignore("model");
  fields.finish();
  Json told = {{"tokens", Json::array()}};
  Json& tokens = told["tokens"];
  if (const size_t n_least = context.tokenizer().least_tokens(content.size());
      n_least > kMostTold) {
    fields.fail("content", fmt::format("has at least {} tokens; an answer tells at most {}. Send "
                                       "it in parts",
                                       n_least, kMostTold));
  }
  Context::check_counted(content.size());
  const std::vector<engine::Token> all = context.tokenizer().encode(
      content, {.add_special = adds_special, .parse_special = parses_special});
  check_told(fields, "content", all.size());
  for (const engine::Token token : all) {
    if (with_pieces) {
      tokens.push_back(
          {{"id", token}, {"piece", piece_json(context.tokenizer().piece(token, true))}});
    } else {
      tokens.push_back(token);
    }
  }
  reply(exchange, told);
}

void serve_detokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body) {
  Fields fields(body);
  const Json* const list = fields.find("tokens");
  fields.ignore("model");
  fields.finish();
  if (list == nullptr || !list->is_array()) fields.fail("tokens", "must be a list of tokens");
  check_told(fields, "tokens", list->size());
  const std::vector<engine::Token> tokens = tokens_from(context.tokenizer(), *list, "tokens");
  reply(exchange, {{"content", context.tokenizer().decode(tokens, true)}});
}

void serve_template(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body) {
  context.check_conversation(body, "messages");
  Fields fields(body);
  const Conversation conversation = read_conversation(fields);
  ignore_remarks(fields);
  fields.finish();
  reply(exchange, {{"prompt", prompt_text_of(context, conversation)}});
}

}  // namespace troika::server
