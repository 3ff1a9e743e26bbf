// Answers to several prompts, in common passes or one after the other.
#pragma once

#include <span>
#include <vector>

#include "engine/batching/batcher.h"

namespace troika::test_support {

// Returns the tokens of 12 steps behind each prompt.
inline std::vector<std::vector<engine::Token>> answers_of(
    const prepare::Options& options, std::span<const std::vector<engine::Token>> prompts,
    bool is_together) {
  engine::Engine engine(options);
  engine::Batcher batcher(engine);
  std::vector<int> numbers;
  for (const std::vector<engine::Token>& prompt : prompts) {
    engine::AnswerRequest request;
    request.prompt = prompt;
    request.options.most_tokens = 12;
    numbers.push_back(batcher.submit(std::move(request)));
    while (!is_together && !batcher.is_done(numbers.back())) batcher.step();
  }
  std::vector<std::vector<engine::Token>> answers;
  for (const int number : numbers) {
    while (!batcher.is_done(number)) batcher.step();
    answers.push_back(batcher.take(number).tokens);
  }
  return answers;
}

}  // namespace troika::test_support
