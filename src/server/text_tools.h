// /tokenize, /detokenize and /apply-template. All throw Refused.
#pragma once

#include "server/context.h"

namespace troika::server {

void serve_tokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body);
void serve_detokenize(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body);
void serve_template(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body);

// A list of whole numbers to tokens.
std::vector<engine::Token> tokens_from(const text::Tokenizer& tokenizer, const Json& list,
                                       const std::string& field);

}  // namespace troika::server
