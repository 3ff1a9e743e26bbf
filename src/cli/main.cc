// The program troika.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cache_folder.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/standard_files.h"
#include "kernels/choose.h"

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

#ifdef __clang__
constexpr const char* kCompiler = "clang";
#else
constexpr const char* kCompiler = "g++";
#endif

bool is_used(const troika::kernels::Kernels& kernels,
             const troika::kernels::Implementation& implementation) {
  return std::any_of(kernels.choices.begin(), kernels.choices.end(),
                     [&](const troika::kernels::KernelChoice& choice) {
                       return std::string_view(choice.implementation) == implementation.name;
                     });
}

// Returns the implementations that some function comes from, the fastest first.
std::string names_of(const troika::kernels::Kernels& kernels) {
  std::string names;
  for (const auto& implementation : troika::kernels::implementations()) {
    if (!is_used(kernels, implementation)) continue;
    names += (names.empty() ? "" : ", ") + std::string(implementation.name);
  }
  return names;
}

// Returns the folder of what is kept between runs, or why there is none.
std::string kept_text() {
  try {
    return troika::cache_folder();
  } catch (const troika::Error&) {
    return "nothing (neither XDG_CACHE_HOME nor HOME is set)";
  }
}

void print_version() {
  const troika::CpuFeatures features = troika::detect_cpu_features();
  const troika::kernels::Kernels kernels = troika::kernels::choose(features);
  troika::cli::print(
      fmt::format("troika {}\n"
                  "processor: {} cores for this process; {}\n"
                  "kernels: {} ('troika --kernels list' says which function comes from where)\n"
                  "compiler: {} {}\n"
                  "kept between runs: {}\n",
                  TROIKA_VERSION, troika::usable_cores(), troika::to_string(features),
                  names_of(kernels), kCompiler, __VERSION__, kept_text()));
}

// Returns "F32, F16" behind a name, in lines of 80 characters at most.
std::string paragraph(const std::string& name, const std::vector<std::string>& words) {
  constexpr size_t kIndent = 24, kWidth = 80;
  std::string text = fmt::format("  {:<{}}", name, kIndent - 3);
  size_t column = text.size();
  for (const std::string& word : words) {
    const bool is_last = &word == &words.back();
    if (column + 1 + word.size() + (is_last ? 0 : 1) > kWidth) {
      text += "\n" + std::string(kIndent - 1, ' ');
      column = kIndent - 1;
    }
    text += " " + word + (is_last ? "\n" : ",");
    column += 1 + word.size() + 1;
  }
  return text;
}

// Returns the implementations of this build from which no function comes: those that need another
// processor, and those that are slower.
std::string unused_kernels(const troika::kernels::Kernels& kernels, troika::CpuFeatures features) {
  std::vector<std::string> foreign, slower;
  for (const auto& implementation : troika::kernels::implementations()) {
    if (is_used(kernels, implementation)) continue;
    (features.has_all(implementation.needs) ? slower : foreign).push_back(implementation.name);
  }
  std::string text;
  if (!foreign.empty()) text += paragraph("cannot run here", foreign);
  if (!slower.empty()) text += paragraph("slower", slower);
  return text.empty() ? "" : "also in this build\n" + text;
}

// Prints for each implementation its functions, and for which types of weights each is used.
void print_kernels() {
  const troika::CpuFeatures features = troika::detect_cpu_features();
  const troika::kernels::Kernels kernels = troika::kernels::choose(features);
  std::string text;
  for (const auto& implementation : troika::kernels::implementations()) {
    std::vector<std::pair<std::string, std::vector<std::string>>> functions;
    std::vector<std::string> without_types;
    for (const troika::kernels::KernelChoice& choice : kernels.choices) {
      if (choice.implementation != std::string_view(implementation.name)) continue;
      const size_t space = choice.function.find(' ');
      if (space == std::string::npos) {
        without_types.push_back(choice.function);
        continue;
      }
      const std::string name = choice.function.substr(0, space);
      if (functions.empty() || functions.back().first != name) functions.push_back({name, {}});
      functions.back().second.push_back(choice.function.substr(space + 1));
    }
    if (functions.empty() && without_types.empty()) continue;
    text += fmt::format("{}\n", implementation.name);
    for (const auto& [name, types] : functions) text += paragraph(name, types);
    if (!without_types.empty()) text += paragraph("without types", without_types);
  }
  troika::cli::print(text + unused_kernels(kernels, features));
}

// Reads the command line and does what it asks for. Throws Error where memory ends, with what the
// command can do about it.
std::string parse(troika::cli::Command& app, int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  std::string asks_for_help = "--help";
  if (argc > 1 && std::string_view(argv[1]) == "help") {  // 'help run' means 'run --help'
    words.erase(words.begin() + 1);
    words.insert(words.begin() + (argc > 2 ? 2 : 1), asks_for_help.data());
  }
  try {
    return app.parse(static_cast<int>(words.size()), words.data());
  } catch (const std::bad_alloc&) {
    throw troika::Error(fmt::format("There is not enough memory. Use a smaller model{}.",
                                    app.chosen_has("--context") ? " or --context" : ""));
  }
}

int run(int argc, char** argv) {
  troika::cli::Command app{
      "Troika runs language models (GGUF files) on the processors of this machine."};
  app.footer(
      "'troika COMMAND --help' shows the options of a command.\n"
      "Exit status: 0, 1 for an error, 2 for wrong usage.");
  bool version = false;
  app.add_flag("--version", version, "Print the version and what this processor gets, and exit");
  std::string kernels;
  app.add_option(
         "--kernels", kernels,
         "list: print which kernels this processor gets and what else is in this build, and "
         "exit")
      ->check(troika::cli::one_of({"list"}));
  troika::cli::add_run(app);
  troika::cli::add_chat(app);
  troika::cli::add_serve(app);
  troika::cli::add_pull(app);
  troika::cli::add_cache(app);
  troika::cli::add_inspect(app);
  troika::cli::add_tokenize(app);
  troika::cli::add_tune(app);
  troika::cli::add_sparsity(app);
  troika::cli::add_neurons(app);
  troika::cli::add_plan(app);
  troika::cli::add_profile(app);
  troika::cli::add_bench(app);
  troika::cli::add_eval(app);
  troika::cli::add_quantize(app);
  troika::cli::add_convert(app);
  troika::cli::add_synth(app);
  troika::cli::add_reproduce(app);
  const std::string help = parse(app, argc, argv);
  if (!help.empty()) {
    troika::cli::print(help);
  } else if (version || !kernels.empty()) {
    if (version) print_version();
    if (version && !kernels.empty()) troika::cli::print("\n");
    if (!kernels.empty()) print_kernels();
  } else if (!app.has_chosen_subcommand()) {
    troika::cli::note(app.help());
    return kExitUsage;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  troika::cli::hold_standard_descriptors();
  // A closed pipe ends a command as an error does, which leaves nothing half-written.
  std::signal(SIGPIPE, SIG_IGN);
  // A file that grows over its limit is an error, too.
  std::signal(SIGXFSZ, SIG_IGN);
  using troika::cli::note;
  try {
    return run(argc, argv);
  } catch (const troika::UsageError& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitUsage;
  } catch (const troika::cli::ClosedPipe&) {
    return kExitError;
  } catch (const troika::Error& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitError;
  } catch (const std::bad_alloc&) {
    note("troika: There is not enough memory.\n");
    return kExitError;
  } catch (const std::exception& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitError;
  }
}
