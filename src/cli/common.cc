#include "cli/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/option_names.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/timeline.h"
#include "cli/idle_switches.h"
#include "cli/use/kept_plan.h"
#include "cli/use/models.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_setup.h"
#include "prepare/make_plan.h"

namespace troika::cli {

namespace {

// "1=2G"
plan::LaneLimit lane_limit_from_text(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const char* const end = text.data() + equals;
  plan::LaneLimit limit;
  const auto lane = std::from_chars(text.data(), end, limit.lane);
  const std::optional<uint64_t> bytes =
      equals == text.size() ? std::nullopt : bytes_from_text(text.substr(equals + 1));
  if (lane.ec != std::errc() || lane.ptr != end || !bytes || limit.lane < 0) {
    throw UsageError(
        fmt::format("--lane-memory '{}' is not understood. Write LANE=BYTES, as in 1=2G.", text));
  }
  limit.bytes = *bytes;
  return limit;
}

plan::LaneCap lane_cap_from_text(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const char* const middle = text.data() + equals;
  const char* const end = text.data() + text.size();
  plan::LaneCap cap;
  const auto lane = std::from_chars(text.data(), middle, cap.lane);
  const char* const behind = equals == text.size() ? end : middle + 1;
  const auto percent = std::from_chars(behind, end, cap.busy_percent);
  if (lane.ec != std::errc() || lane.ptr != middle || percent.ec != std::errc() ||
      percent.ptr != end) {
    throw UsageError(
        fmt::format("--lane-busy '{}' is not understood. Write LANE=PERCENT, as in 1=50.", text));
  }
  return cap;
}

}  // namespace

bool EngineFlags::is_given(const std::string& name) const {
  return command_ != nullptr && command_->is_given(name);
}

prepare::Options EngineFlags::checked() const {
  refuse_idle_switches(*this);
  prepare::Options checked = options;
  if (prepare::is_here(checked)) prepare::take_neuron_step(&checked);
  if (!prepare::is_here(checked)) {
    if (!lanes.empty()) checked.phone.processors = lanes::processors_from_text(lanes);
  } else if (!lanes.empty()) {
    checked.lanes.cores = plan::lanes_from_text(lanes, usable_core_numbers());
  }
  for (const std::string& text : placements) {
    checked.lanes.placements.push_back(plan::placement_from_text(text));
  }
  for (const std::string& text : cuts) {
    if (text == kCutAuto) {
      checked.lanes.solves_cuts = true;
    } else {
      checked.lanes.cuts.push_back(plan::cut_from_text(text));
    }
  }
  for (const std::string& text : lengths) {
    checked.lanes.lengths.push_back(plan::length_from_text(text));
  }
  for (const std::string& text : constants) {
    checked.phone.constants.push_back(plan::constant_from_text(text));
  }
  for (const std::string& text : lane_limits) {
    checked.lanes.limits.push_back(lane_limit_from_text(text));
  }
  for (const std::string& text : lane_caps) {
    checked.lanes.caps.push_back(lane_cap_from_text(text));
  }
  return checked;
}

std::unique_ptr<engine::Engine> load(const EngineFlags& flags) {
  prepare::Options options = flags.checked();
  Progress bar("measuring weights");
  options.progress = bar.function();
  if (flags.uses_kept_plan()) options.plan.base = kept_plan(flags);
  auto engine = std::make_unique<engine::Engine>(options);
  if (!engine->loaded().note.empty()) note("note: " + with_flags(engine->loaded().note) + "\n");
  if (const plan::PromptAttention& attention = engine->plan().attention; attention.is_untuned()) {
    note(fmt::format(
        "note: sparse attention is not tuned for this model: it keeps what weighs {:g} "
        "times the mean, as was found on SmolLM2-135M, and all in block 0. 'troika tune' "
        "measures what that loses here\n",
        attention.above));
  }
  for (const std::string& sentence : idle_switches(flags, options, *engine))
    note("note: " + sentence + "\n");
  for (const std::string& sentence : broken_rules(flags, *engine)) note("note: " + sentence + "\n");
  const int trained = engine->blueprint().trained_context;
  const int context = engine->plan().context;
  if (context > trained) {
    note(
        fmt::format("note: the model was trained on {} tokens of context; beyond them its text "
                    "gets worse\n",
                    trained));
  }
  return engine;
}

std::string attention_text(const plan::PromptAttention& attention) {
  const char* const form = plan::attention_form_name(attention.form);
  if (!attention.is_sparse()) return fmt::format("attention {}", form);
  if (attention.is_by_weight()) {
    const auto& shares = attention.head_shares;
    const auto n_full = std::count_if(shares.begin(), shares.end(), [](float s) { return s >= 1; });
    return fmt::format("attention {}: positions above {:.4g} times the mean weight, from {} on; {}",
                       form, attention.above, attention.from,
                       attention.is_untuned()
                           ? "block 0 full, not tuned"
                           : fmt::format("{} of {} heads full", n_full, shares.size()));
  }
  std::string text = fmt::format("attention {}: {:.4g} % of the positions from {} on", form,
                                 100 * attention.share, attention.from);
  if (!attention.head_shares.empty()) text += ", by head";
  return text;
}

std::string prefill_text(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::string text = plan::prefill_name(plan.prefill);
  if (plan.prefill == plan::Prefill::kInt8) {
    text += fmt::format(" {}, {}", plan::int8_method_name(plan.int8.method),
                        plan::int8_method_text(plan.int8.method));
    if (plan::has_shadow(plan.int8.method)) {
      text += fmt::format(" for {} % of the products", 100 - plan.int8.outlier_prune);
    }
  }
  if (!plan.prefill_reason.empty()) text += fmt::format(" ({})", plan.prefill_reason);
  if (const size_t bytes = engine.weights().packed_bytes(); bytes > 0) {
    text += fmt::format(", {} packed in {:.2f} s", bytes_text(bytes), engine.loaded().pack_seconds);
  }
  if (plan.attention.is_sparse()) text += "; " + attention_text(plan.attention);
  return text;
}

void TraceFlags::add_to(Command& command) {
  command.begin_group("Measuring");
  command.add_option("--trace", trace_path_,
                     "Write every task as JSON for chrome://tracing or ui.perfetto.dev");
  command.add_option("--timeline", timeline_path_, "Draw every task of every lane as SVG");
  command.end_group();
}

namespace {

// "Qwen2.5 0.5B Instruct, Q8_0", and where and how it runs.
TimelineTitle timeline_title(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::string name = engine.blueprint().name;
  if (name.empty()) name = std::filesystem::path(engine.file().path()).filename().string();
  std::string how =
      engine.phone_setup() != nullptr
          ? fmt::format("virtual phone {}, modelled time", engine.phone_setup()->name())
          : fmt::format("{}, {}, prompts in {}", processor_name(), plan.workers_text(),
                        plan::prefill_name(plan.prefill));
  how += fmt::format("; chunks of {} tokens", plan.chunk());
  if (plan.lanes.size() > 1) how += fmt::format(", {}", plan::order_name(plan.order));
  return {fmt::format("{}, {}", name, tensor::type_name(engine.weights().main_type())), how};
}

}  // namespace

engine::Watch TraceFlags::watch(const engine::Engine& engine) {
  if (trace_path_.empty() && timeline_path_.empty()) return {};
  trace_ = std::make_unique<Trace>(engine.trace_rows());
  return {.trace = trace_.get()};
}

void TraceFlags::end(engine::Engine& engine) {
  if (trace_ == nullptr) return;
  if (!trace_path_.empty()) write_file(trace_path_, trace_->to_json());
  if (!timeline_path_.empty())
    write_file(timeline_path_, timeline_svg(*trace_, timeline_title(engine)));
  const TraceSummary summary = summarise(*trace_);
  for (const LaneUse& use : summary.lanes) {
    note(fmt::format("lane {:<8} {:5.1f}% busy, {:5.1f}% bubbles, {} tasks\n", use.lane,
                     100 * use.busy_us / summary.span_us, 100 * use.bubble_us / summary.span_us,
                     use.n_tasks));
  }
  const schedule::SchedulerStatistics& scheduler = engine.passes().statistics;
  if (scheduler.n_decisions == 0) return;
  note(fmt::format("{} decisions of what comes next ({}), {:.2f} us each\n", scheduler.n_decisions,
                   plan::order_name(engine.plan().order),
                   scheduler.decision_us / static_cast<double>(scheduler.n_decisions)));
}

void SamplerFlags::add_to(Command& command) {
  command.before([this, &command] { note_idle(command); });
  command.begin_group("Sampling");
  command.add_option("--temp", options.temperature, "Temperature; 0 takes the most likely token")
      ->capture_default_str();
  command.add_option("--top-k", options.top_k, "Keep the k most likely tokens; 0 is off")
      ->capture_default_str();
  command.add_option("--top-p", options.top_p, "Keep the most likely tokens up to this share")
      ->capture_default_str();
  command
      .add_option("--min-p", options.min_p, "Drop tokens below this share of the most likely one")
      ->capture_default_str();
  command
      .add_option("--repeat-penalty", options.repetition_penalty,
                  "Divide the logits of tokens seen lately; 1 is off")
      ->capture_default_str();
  command.add_option("--frequency-penalty", options.frequency_penalty,
                     "Take off for each time a token was seen lately");
  command.add_option("--presence-penalty", options.presence_penalty,
                     "Take off once for tokens seen lately");
  command
      .add_option("--penalty-window", options.penalty_window,
                  "How many last tokens count as lately; -1 is all")
      ->capture_default_str();
  command.add_option("--logit-bias", biases, "TOKEN=BIAS: add to a token's logit (repeatable)");
  seed = command.add_option("--seed", options.seed, "Seed: the same gives the same text")
             ->check(no_minus_sign());
  command.end_group();
}

void SamplerFlags::note_idle(const Command& command) const {
  const auto say = [&](const char* name, const char* why) {
    if (command.is_given(name)) note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  if (options.temperature == 0.0f) {
    for (const char* name : {"--top-k", "--top-p", "--min-p", "--seed"}) {
      say(name, "--temp 0 takes the most likely token");
    }
  }
  const bool has_penalty = options.repetition_penalty != 1.0f ||
                           options.frequency_penalty != 0.0f || options.presence_penalty != 0.0f;
  if (!has_penalty) say("--penalty-window", "no penalty is given");
}

namespace {

// "29=-5": a token and a bias, which may be -inf. Throws UsageError.
std::pair<int, float> parse_bias(const std::string& text) {
  const char* end = text.data() + text.size();
  int token = 0;
  float bias = 0.0f;
  const auto number = std::from_chars(text.data(), end, token);
  bool ok = number.ec == std::errc() && token >= 0 && number.ptr != end && *number.ptr == '=';
  if (ok) {
    const auto value = std::from_chars(number.ptr + 1, end, bias);
    // A token may be forbidden for good, but not be wanted without end.
    ok = value.ec == std::errc() && value.ptr == end && bias < INFINITY;
  }
  if (ok) return {token, bias};
  throw UsageError(fmt::format(
      "--logit-bias '{}' is not understood. Write TOKEN=BIAS, for example 29=-5.", text));
}

}  // namespace

engine::SamplerOptions SamplerFlags::checked() const {
  engine::SamplerOptions checked = options;
  for (const std::string& text : biases) checked.logit_bias.push_back(parse_bias(text));
  if (seed->count() == 0) checked.seed = std::random_device{}();
  return checked;
}

void SamplerFlags::check_tokens(const engine::Engine& engine) const {
  const int n_tokens = engine.blueprint().n_vocab;
  for (const std::string& text : biases) {
    if (parse_bias(text).first < n_tokens) continue;
    throw UsageError(
        fmt::format("--logit-bias '{}': the model's tokens are 0 to {}. 'troika "
                    "tokenize' shows those of a text.",
                    text, n_tokens - 1));
  }
}

std::string with_flags(const std::string& text) {
  return with_option_names(text,
                           [](std::string_view option) { return fmt::format("--{}", option); });
}

std::string message_of(const std::exception& error) { return with_flags(error.what()); }

std::string read_text(const std::string& path) {
  if (path == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text;
  size_t n_read = 0;
  if (file != nullptr) {
    char buffer[65536];
    while ((n_read = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
      text.append(buffer, n_read);
    }
  }
  if (file == nullptr || std::ferror(file.get()) != 0) {
    throw Error(fmt::format("{}: cannot be read: {}.", path, std::strerror(errno)));
  }
  return text;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  throw Error(fmt::format("Standard output cannot be written: {}.", std::strerror(errno)));
}

void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void note(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace troika::cli
