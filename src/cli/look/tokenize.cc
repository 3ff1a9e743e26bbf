// troika tokenize: splits text into tokens.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags/idle_note.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/use/models.h"
#include "gguf/file.h"
#include "text/tokenizer.h"

namespace troika::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  std::string file;
  std::string pre;
  Option* text_option = nullptr;
  bool no_special = false;
  bool parse_special = false;
  bool ids = false;
  bool json = false;
};

std::string printable(std::string_view piece) {
  return nlohmann::json(piece).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void tokenize(const TokenizeFlags& flags) {
  if ((flags.text_option->count() > 0) == !flags.file.empty()) {
    throw UsageError("Give the text once: -p TEXT, or -f FILE (- for standard input).");
  }
  const std::string text = flags.file.empty() ? flags.text : read_text(flags.file);
  const gguf::File file = gguf::File::open(flags.model);
  const auto tokenizer = text::make_tokenizer(file, {flags.pre});
  note_pre(*tokenizer);
  const std::vector<text::Token> tokens = tokenizer->encode(
      text, {.add_special = !flags.no_special, .parse_special = flags.parse_special});
  if (flags.json) {
    print(nlohmann::json{{"tokens", tokens}, {"n", tokens.size()}}.dump() + "\n");
    return;
  }
  std::string out;
  for (const text::Token token : tokens) {
    out += flags.ids ? fmt::format("{} ", token)
                     : fmt::format("{:>8}  {}\n", token, printable(tokenizer->piece(token, true)));
  }
  if (flags.ids) out += "\n";
  print(out);
  note(fmt::format("{} tokens for {} bytes\n", tokens.size(), text.size()));
}

}  // namespace

void add_tokenize(Command& app) {
  Command* command = app.add_subcommand("tokenize", "Show the tokens of a text", kUseGroup);
  command->examples({"troika tokenize model.gguf -p \"Hello world\" --ids"});
  auto flags = std::make_shared<TokenizeFlags>();
  add_model(*command, "MODEL", flags->model)->required();
  flags->text_option = command->add_option("-p,--prompt", flags->text, "The text");
  command->add_option("-f,--file", flags->file, "Read the text from a file; - is standard input")
      ->names_file();
  command->add_option("--pre", flags->pre,
                      "Use this pre-tokenizer instead of the one the file names");
  command->add_flag("--no-bos", flags->no_special, "Without the model's begin and end tokens");
  command->add_flag("--special", flags->parse_special, "Special tokens in the text count as such");
  command->add_flag("--ids", flags->ids, "Numbers only, on one line");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    note_idle_option(*command, "--ids", flags->json, "--json shows the numbers of the tokens");
    tokenize(*flags);
  });
}

}  // namespace troika::cli
