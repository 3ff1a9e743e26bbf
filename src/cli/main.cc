// The program troika.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/system.h"
#include "cli/common.h"
#include "kernels/choose.h"
#include "plan/profile_cache.h"

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

#ifdef __clang__
constexpr const char* kCompiler = "clang";
#else
constexpr const char* kCompiler = "g++";
#endif

// Returns the implementations that some function comes from, the fastest first.
std::string names_of(const troika::kernels::Kernels& kernels) {
  std::string names;
  for (const auto& implementation : troika::kernels::implementations()) {
    const bool is_used = std::any_of(
        kernels.choices.begin(), kernels.choices.end(), [&](const troika::kernels::Choice& choice) {
          return std::string_view(choice.implementation) == implementation.name;
        });
    if (is_used) names += (names.empty() ? "" : ", ") + std::string(implementation.name);
  }
  return names;
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
                  names_of(kernels), kCompiler, __VERSION__, troika::plan::cache_folder()));
}

void print_kernels() {
  troika::cli::print(describe(troika::kernels::choose(troika::detect_cpu_features())));
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
  app.add_option("--kernels", kernels, "list: print which kernels this processor gets, and exit")
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
  const std::string help = app.parse(argc, argv);
  if (!help.empty()) {
    troika::cli::print(help);
  } else if (version) {
    print_version();
  } else if (!kernels.empty()) {
    print_kernels();
  } else if (!app.has_chosen_subcommand()) {
    troika::cli::note(app.help());
    return kExitUsage;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe is an error like any other, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that grows over its limit.
  std::signal(SIGXFSZ, SIG_IGN);
  using troika::cli::note;
  try {
    return run(argc, argv);
  } catch (const troika::UsageError& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitUsage;
  } catch (const troika::Error& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitError;
  } catch (const std::bad_alloc&) {
    note(fmt::format("troika: There is not enough memory. Use a smaller model or --context.\n"));
    return kExitError;
  } catch (const std::exception& error) {
    note(fmt::format("troika: {}\n", troika::cli::message_of(error)));
    return kExitError;
  }
}
