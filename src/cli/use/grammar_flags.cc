#include "cli/use/grammar_flags.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/use/drafting.h"

namespace troika::cli {

void GrammarFlags::add_to(Command& command) {
  constexpr const char* kHelp[] = {
      "The answer is compact JSON that fits the JSON schema in this file, with keys in the "
      "schema's "
      "order; - is standard input",
      "The answer fits the grammar in this file (GBNF, as in llama.cpp); - is standard input",
      "The answer as a whole fits this regular expression"};
  command.begin_group(kAnswerGroup);
  for (size_t i = 0; i < std::size(all_); ++i) {
    all_[i].option = command.add_option(all_[i].name, all_[i].value, kHelp[i]);
    if (all_[i].is_file) all_[i].option->names_file();
    for (size_t j = 0; j < i; ++j) all_[i].option->excludes(all_[j].option);
  }
  command.end_group();
}

const GrammarFlags::Given* GrammarFlags::given() const {
  for (const Given& one : all_) {
    if (one.option != nullptr && one.option->count() > 0) return &one;
  }
  return nullptr;
}

const char* GrammarFlags::name() const { return given()->name; }

std::string GrammarFlags::file() const {
  const Given* const one = given();
  return one != nullptr && one->is_file ? one->value : "";
}

void GrammarFlags::read() {
  const Given* const one = given();
  if (one != nullptr) source_ = one->is_file ? read_text(one->value) : one->value;
}

std::shared_ptr<grammar::Grammar> GrammarFlags::compile(const engine::Engine& engine) {
  const Given* const one = given();
  if (one == nullptr) return nullptr;
  const RealClock clock;
  const double start_us = clock.now_us();
  std::shared_ptr<grammar::Grammar> grammar;
  try {
    grammar = grammar::compile(source_, one->format,
                               std::make_shared<grammar::TokenTrie>(engine.tokenizer()));
  } catch (const Error& error) {
    const std::string message = fmt::format("{} {}: {}", one->name, one->value, error.what());
    if (one->is_file) throw Error(message);
    throw UsageError(message);
  }
  compile_ms_ = (clock.now_us() - start_us) / 1e3;
  return grammar;
}

nlohmann::ordered_json GrammarFlags::json(const engine::Constraint::Statistics& s) const {
  if (!is_given()) return nullptr;
  return {{"option", name()},
          {"compile_ms", compile_ms_},
          {"masks", s.n_masks},
          {"mask_us_mean", ratio(s.sum_us, static_cast<double>(s.n_masks))},
          {"mask_us_longest", s.longest_us}};
}

std::string GrammarFlags::text(const engine::Constraint::Statistics& s) const {
  return fmt::format(
      "grammar    {:8.1f} ms  to compile; {} masks, {:.1f} us each, the longest {:.0f} us\n",
      compile_ms_, s.n_masks, ratio(s.sum_us, static_cast<double>(s.n_masks)), s.longest_us);
}

void GrammarFlags::note_cut(engine::Stop stop) const {
  const char* const more = stop == engine::Stop::kLength    ? "-n"
                           : stop == engine::Stop::kContext ? "--context"
                                                            : nullptr;
  if (more == nullptr) return;
  note(fmt::format("note: the answer was cut off and may not fit {} yet: give more {}\n", name(),
                   more));
}

}  // namespace troika::cli
