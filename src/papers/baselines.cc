#include "papers/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "measure/simulate.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/gpu_alone.h"
#include "papers/npu/npu_runs.h"

namespace troika::papers {
namespace {

// A model on one processor of the 8 Gen 3.
struct Setting {
  std::string known;
  std::string stack;
  std::string lane;
  std::string type;  // the weights' type

  std::string text() const { return fmt::format("{} {} on the {}", known, type, lane); }
};

// Takes the number above 0 at the beginning of a text; empty where there is none. What begins with
// a digit is no infinity, as the letters of "information" would be.
std::optional<double> take_number(std::string_view* text) {
  if (text->empty() || text->front() < '0' || text->front() > '9') return std::nullopt;
  double number = 0.0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || number <= 0.0) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

// Reads "a–b" or "a" at the beginning of a text; the dash is an en dash. Empty where it is neither.
std::optional<std::pair<double, double>> range_of(std::string_view text) {
  constexpr std::string_view kDash = "\u2013";
  const std::optional<double> low = take_number(&text);
  if (!low || !text.starts_with(kDash))
    return low ? std::optional(std::pair(*low, *low)) : std::nullopt;
  text.remove_prefix(kDash.size());
  const std::optional<double> high = take_number(&text);
  return high ? std::optional(std::pair(*low, *high)) : std::nullopt;
}

class Baselines {
 public:
  explicit Baselines(const PhoneFolder& folder) : folder_(folder) {}

  MicroReport run() {
    const Given given(folder_.path, "baselines");
    const TestRows rows(folder_);
    for (const std::string& id : given.rows("whole tasks of llama.cpp")) {
      add_table5(rows.row_of(id), given.why_not_counted(id));
    }
    add_rates();
    return std::move(report_);
  }

 private:
  void add(const plan::PublishedRow& row, const plan::PublishedValue& value, const char* group,
           double simulated, const std::string& inputs) {
    report_.rows.push_back({&row, &value, group, Split::kNone, simulated, inputs});
  }

  // Adds a row with the reason why nothing stands beside it, so that no median has it.
  void add_not_counted(const plan::PublishedRow& row, const plan::PublishedValue& value,
                       const std::string& group, const std::string& reason) {
    report_.rows.push_back(
        {&row, &value, group, Split::kNone, std::nullopt, "not counted: " + reason});
  }

  // Adds the task's times of prefill, decode and both.
  void add_table5(const plan::PublishedRow& row, const std::string& reason) {
    constexpr const char* kGroup = "llama.cpp on the CPU, in llm.npu";
    if (!reason.empty()) {
      for (const plan::PublishedValue& value : row.values) {
        add_not_counted(row, value, kGroup, reason);
      }
      return;
    }
    const char* known = known_npu_model(row.configuration);
    if (known == nullptr) {
      throw Error(fmt::format("{}/published: row '{}' is of a model that is not known.",
                              folder_.path, row.id));
    }
    const TaskLengths lengths = task_lengths(row);
    const Setting setting = {known, "llm.npu", "cpu", "q8_0"};
    const double prefill_s = seconds(setting, static_cast<int>(std::lround(lengths.prompt)), 0, 0);
    const double step_s =
        seconds(setting, 0, static_cast<int>(std::lround(lengths.prompt)), 8) / 8.0;
    const std::string inputs =
        fmt::format("{}, {:g} tokens, then {:g}", setting.text(), lengths.prompt, lengths.output);
    for (const plan::PublishedValue& value : row.values) {
      const double decode_s = step_s * lengths.output;
      const double simulated = value.name == "prefill"  ? prefill_s
                               : value.name == "decode" ? decode_s
                                                        : prefill_s + decode_s;
      add(row, value, kGroup, simulated, inputs);
    }
  }

  // Adds rates in tokens per second, of prompts and of steps behind so many tokens, to the rows
  // that phones/simulated/baselines.json names.
  void add_rates() {
    constexpr int kSteps = 64;
    const auto setting = [](const plan::FigureCall& call) {
      return Setting{call.text("model"), call.text("stack"), call.text("processor"),
                     call.text("type")};
    };
    Figures figures;
    figures.add("prompt rate", {"model", "stack", "processor", "type", "tokens"},
                [&](const plan::FigureCall& call) {
                  const int n_prompt = call.count("tokens");
                  return n_prompt / seconds(setting(call), n_prompt, 0, 0);
                });
    figures.add("step rate", {"model", "stack", "processor", "type", "behind"},
                [&](const plan::FigureCall& call) {
                  return kSteps / seconds(setting(call), 0, call.count("behind"), kSteps);
                });
    TestRows rows(folder_);
    add_rows(plan::read_simulated(folder_.path + "/simulated/baselines.json"), figures, &rows);
    for (TestRow& row : rows.take_rows()) {
      if (row.reason.empty()) {
        report_.rows.push_back(std::move(row.base));
      } else {
        add_not_counted(*row.base.row, *row.base.value, row.base.group, row.reason);
      }
    }
  }

  // Returns the time of a prompt, or of `n_steps` steps behind `context` tokens.
  double seconds(const Setting& setting, int n_prompt, int context, int n_steps) {
    prepare::Options options;
    options.phone.file = folder_.path + "/8gen3.json";
    options.phone.stack = setting.stack;
    options.model.file = setting.known;
    options.model.type = setting.type;
    options.phone.processors = {lanes::processor_from_name(setting.lane)};
    options.phone.has_values = false;
    fill_queue_of_gpu_alone(&options);
    options.memory.context = std::max(n_prompt, context + n_steps) + 8;
    engine::Engine engine(options);
    engine::Session session(engine);
    measure::MeasureOptions measure;
    measure.prefill_tokens.clear();
    if (n_prompt > 0) measure.prefill_tokens = {n_prompt};
    measure.decode_tokens = n_steps;
    measure.decode_context = context;
    const measure::Simulation s = measure::simulate(session, measure);
    return n_prompt > 0 ? s.prefill[0].seconds : s.decode.seconds;
  }

  const PhoneFolder& folder_;
  MicroReport report_;
};

}  // namespace

TaskLengths task_lengths(const plan::PublishedRow& row) {
  const auto after = [&](std::string_view word) {
    const std::string_view text = row.configuration;
    const size_t at = text.find(word);
    const auto range =
        at != std::string_view::npos ? range_of(text.substr(at + word.size())) : std::nullopt;
    if (range) return *range;
    throw Error(fmt::format("The published row '{}' does not say '{}' with a number, or two.",
                            row.id, word.substr(0, word.size() - 1)));
  };
  const auto [shortest, longest] = after("prompt ");
  const auto [fewest, most] = after("out ");
  return {(shortest + longest) / 2.0, (fewest + most) / 2.0, shortest, longest};
}

std::vector<int> TaskLengths::prompts(int n) const {
  TROIKA_ASSERT(n > 0);
  std::vector<int> lengths;
  for (int i = 0; i < n; ++i) {
    const double share = (i + 0.5) / n;
    lengths.push_back(static_cast<int>(
        std::lround(shortest_prompt + share * (longest_prompt - shortest_prompt))));
  }
  return lengths;
}

MicroReport simulate_baselines(const PhoneFolder& folder) { return Baselines(folder).run(); }

}  // namespace troika::papers
