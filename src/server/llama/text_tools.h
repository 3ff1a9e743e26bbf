// Serves /tokenize, /detokenize and /apply-template. All functions throw Refused.
#pragma once

#include "server/context.h"

namespace troika::server {

void serve_tokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body);
void serve_detokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body);
void serve_template(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body);

// Reads a whole number as a token; the second function reads a list of them.
engine::Token token_from(const text::Tokenizer& tokenizer, const Json& number,
                         const std::string& field);
std::vector<engine::Token> tokens_from(const text::Tokenizer& tokenizer, const Json& list,
                                       const std::string& field);

}  // namespace troika::server
