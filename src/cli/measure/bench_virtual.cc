#include "cli/measure/bench_virtual.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/tune/cut_notes.h"
#include "cli/tune/layouts.h"
#include "cli/tune/neurons.h"
#include "cli/use/memory.h"
#include "machines/phone_setup.h"
#include "measure/simulate.h"
#include "model/limits.h"

namespace troika::cli {
namespace {

using measure::SimulatedRate;
using measure::Simulation;

nlohmann::ordered_json to_json(const SimulatedRate& rate, const engine::Engine& engine) {
  nlohmann::ordered_json json = {{"tokens", rate.n_tokens},
                                 {"tokens_per_s", rate.tokens_per_s()},
                                 {"seconds", rate.seconds},
                                 {"joules", rate.joules},
                                 {"joules_per_token", rate.joules_per_token()}};
  const auto lanes = engine.phone().machine->lanes();
  for (size_t i = 0; i < rate.busy_share.size(); ++i) {
    json["busy"][lanes[i]->info().name] = rate.busy_share[i];
  }
  if (rate.frames.n_periods > 0) {
    json["frames"] = {{"periods", rate.frames.n_periods},
                      {"drawn", rate.frames.n_drawn},
                      {"in_time", rate.frames.n_in_time},
                      {"per_s", rate.frames_per_s()}};
  }
  return json;
}

std::string precision_of(const engine::Engine& engine) {
  std::string text = fmt::format("{} weights", tensor::type_name(engine.weights().main_type()));
  for (const plan::PlannedLane& lane : engine.plan().lanes) {
    const auto name_of = [&](plan::Phase phase) {
      const lanes::Arithmetic arithmetic =
          engine.phone().machine->model().arithmetic(lanes::processor_from_name(lane.kind), phase);
      return arithmetic == lanes::Arithmetic::kInt8 ? "int8" : "fp16";
    };
    const std::string steps = name_of(plan::Phase::kStep), prompts = name_of(plan::Phase::kPrompt);
    text += fmt::format(", {} {}", lane.kind, steps);
    if (prompts != steps) text += fmt::format(" (prompts {})", prompts);
  }
  return text;
}

nlohmann::ordered_json to_json(const Simulation& s, const engine::Engine& engine) {
  nlohmann::ordered_json json;
  json["model"] = engine.file().path();
  json["machine"] = engine.phone().setup->name();
  json["precision"] = precision_of(engine);
  json["chunk"] = engine.plan().chunk();
  json["prefill"] = nlohmann::ordered_json::array();
  for (const SimulatedRate& rate : s.prefill) {
    json["prefill"].push_back(to_json(rate, engine));
    json["prefill"].back()["graphs_s"] = rate.graphs_s;
    json["prefill"].back()["fraction_of_peak"] = nullptr;  // a modelled unit has no measured peak
    if (rate.n_decisions > 0) {
      json["prefill"].back()["scheduler"] = {{"order", plan::order_name(engine.plan().order)},
                                             {"decisions", rate.n_decisions},
                                             {"decision_us", rate.decision_us},
                                             {"longest_us", rate.longest_decision_us}};
    }
  }
  json["decode"] = to_json(s.decode, engine);
  json["decode"]["bytes_per_step"] = s.decode_bytes;
  json["decode"]["fraction_of_bandwidth"] =
      s.decode.tokens_per_s() * s.decode_bytes / (s.read_gb_s * 1e9);
  json["peaks"] = {{"int8_tops", nullptr}, {"bf16_tflops", nullptr}, {"read_gb_s", s.read_gb_s}};
  json["load_s"] = s.graphs_s;
  json["neurons"] = neurons_json(s, engine);
  const auto shortest = std::min_element(
      s.prefill.begin(), s.prefill.end(),
      [](const SimulatedRate& a, const SimulatedRate& b) { return a.n_tokens < b.n_tokens; });
  json["first_token_s"] = shortest == s.prefill.end() ? nlohmann::ordered_json()
                                                      : nlohmann::ordered_json(shortest->seconds);
  json["peak_bytes"] = nullptr;
  return json;
}

void print_rate(const std::string& what, const SimulatedRate& rate, const engine::Engine& engine) {
  std::string busy;
  const auto lanes = engine.phone().machine->lanes();
  for (size_t i = 0; i < rate.busy_share.size(); ++i) {
    busy += fmt::format("  {} {:3.0f}%", lanes[i]->info().name, 100 * rate.busy_share[i]);
  }
  print(fmt::format("{:<14} {:>10.1f} {:>9.3f} {:>9.2f} {:>9.4f}  {}\n", what, rate.tokens_per_s(),
                    rate.seconds, rate.joules, rate.joules_per_token(), busy));
}

void print_frames(const char* what, const SimulatedRate& rate) {
  if (rate.frames.n_periods == 0) return;
  print(fmt::format("{} {}: a game beside it draws {:.1f} frames/s, {} of {} in time\n", what,
                    rate.n_tokens, rate.frames_per_s(), rate.frames.n_in_time,
                    rate.frames.n_periods));
}

// Says when graphs are made, and how long it takes.
std::string graphs_text(const Simulation& s, const engine::Engine& engine) {
  if (!engine.phone().setup->makes_graphs_per_prompt) {
    return fmt::format("graphs are made in {:.2f} s, once; ", s.graphs_s);
  }
  std::string text;
  for (const SimulatedRate& rate : s.prefill) {
    text +=
        fmt::format("prefill {}: waits {:.2f} s for its graphs\n", rate.n_tokens, rate.graphs_s);
  }
  return text;
}

void print_table(const Simulation& s, const engine::Engine& engine) {
  print(fmt::format("{} on {}: {}, chunks of {} tokens. Modelled time; nothing is computed.\n\n",
                    engine.file().path(), engine.phone().setup->name(), precision_of(engine),
                    engine.plan().chunk()));
  print("                 tokens/s         s         J   J/token   busy\n");
  for (const SimulatedRate& rate : s.prefill) {
    print_rate(fmt::format("prefill {}", rate.n_tokens), rate, engine);
  }
  for (const SimulatedRate& rate : s.prefill) print_frames("prefill", rate);
  print_frames("decode", s.decode);
  for (const SimulatedRate& rate : s.prefill) {
    if (rate.n_decisions == 0) continue;
    print(fmt::format(
        "prefill {}: {} decisions of what comes next ({}), {:.2f} us of this machine "
        "each\n",
        rate.n_tokens, rate.n_decisions, plan::order_name(engine.plan().order), rate.decision_us));
  }
  if (s.decode.n_tokens > 0) {
    print_rate(fmt::format("decode {}", s.decode.n_tokens), s.decode, engine);
    print(fmt::format("\na step moves {}: {:.0f}% of the {:.1f} GB/s that all lanes reach\n",
                      bytes_text(static_cast<size_t>(s.decode_bytes)),
                      100 * s.decode.tokens_per_s() * s.decode_bytes / (s.read_gb_s * 1e9),
                      s.read_gb_s));
  }
  print(neurons_text(s, engine));
  print(graphs_text(s, engine) +
        fmt::format("weights are {}\n", bytes_text(engine.weights().total_bytes())));
}

// Returns "cpu", or "npu of 21 blocks, then cpu".
std::string lanes_text(const engine::Engine& engine, const std::string& kind, plan::Shape shape) {
  const plan::Plan& plan = engine.plan();
  const auto name = [&](int block) {
    return plan.lanes[static_cast<size_t>(plan.lane_of(kind, shape, block))].kind;
  };
  const bool is_of_blocks = kind != "embed" && kind != "head";
  const int n_blocks = engine.blueprint().n_layers;
  const std::string first = name(is_of_blocks ? 0 : -1);
  for (int block = 1; is_of_blocks && block < n_blocks; ++block) {
    if (name(block) != first) return fmt::format("{} ({}), {}", first, block, name(block));
  }
  return first;
}

std::vector<const char*> kinds_of(const plan::Plan& plan) {
  std::vector<const char*> kinds = {"embed"};
  const auto add = [&](std::initializer_list<const char*> more) {
    kinds.insert(kinds.end(), more);
  };
  if (plan.splits.at_norms) add({"norm"});
  add({"qkv", "attention"});
  if (plan.splits.at_norms) add({"out"});
  add({"ffn"});
  if (plan.splits.at_activations) add({"activation", "down"});
  add({"head"});
  return kinds;
}

}  // namespace

void bench_on_phone(const EngineFlags& flags, const measure::MeasureOptions& options, bool json,
                    TraceFlags* trace) {
  EngineFlags timing = flags;
  timing.options.phone.has_values = false;
  if (timing.options.memory.context == 0) {
    int needed = std::max(options.decode_context, 1) + options.decode_tokens + 2;
    if (needed > model::kMostContext) {
      throw UsageError(fmt::format(
          "--tokens {} behind --depth {} need a longer context than {}, which is the longest. Ask "
          "for fewer tokens.",
          options.decode_tokens, options.decode_context, model::kMostContext));
    }
    for (const int n : options.prefill_tokens) needed = std::max(needed, n);
    timing.options.memory.context = needed;
  }
  const auto engine = load(timing);
  engine::Session session(*engine);
  session.watch(trace->watch(*engine));
  const Simulation simulation = measure::simulate(session, options);
  if (json) {
    nlohmann::ordered_json json = to_json(simulation, *engine);
    json["layouts"] = layouts_json(*engine);
    print_json(json);
  } else {
    print_table(simulation, *engine);
    print(layouts_text(*engine));
  }
  trace->end(*engine);
}

void explain_on_phone(const engine::Engine& engine) {
  const solve::PlacementChoice& choice = engine.phone().setup->choice;
  const plan::Plan& plan = engine.plan();
  print(fmt::format("{} on {}: {}, chunks of {} tokens\n\n", engine.file().path(),
                    engine.phone().setup->name(), precision_of(engine), plan.chunk()));
  std::string head = fmt::format("{:>7}", "tokens");
  const std::vector<const char*> kinds = kinds_of(plan);
  for (const char* kind : kinds) head += fmt::format("  {:<14}", kind);
  head += fmt::format("{:>11} {:>9}", "ms", "tokens/s");
  for (const plan::PlannedLane& lane : plan.lanes)
    head += fmt::format("{:>12}", "all on " + lane.kind);
  print(head + "\n");
  for (const solve::ShapeChoice& phase : choice.shapes) {
    const bool is_used = phase.shape.n_rows <= plan.chunk();
    std::string row = fmt::format("{:>7}", phase.shape.n_rows);
    for (const char* kind : kinds) {
      const std::string head_or_body = kind;
      row += fmt::format(
          "  {:<14}",
          is_used ? lanes_text(engine, kind, head_or_body == "head" ? plan::Shape() : phase.shape)
                  : "-");
    }
    row +=
        fmt::format("{:>11.2f} {:>9.1f}", phase.us / kUsPerMs, 1e6 * phase.shape.n_rows / phase.us);
    for (const double us : phase.single_lane_us) row += fmt::format("{:>12.2f}", us / kUsPerMs);
    print(row + (is_used ? "\n" : "   not a shape: no faster a token\n"));
  }
  print("\n");
  const auto lanes = engine.phone().machine->lanes();
  for (const plan::OpTime& time : engine.phone().setup->arrangements) {
    print(
        fmt::format("{} computes {} x {} for {} tokens as {}: {:.2f} times as fast as the slowest "
                    "equivalent shape\n",
                    lanes[static_cast<size_t>(time.lane)]->info().name, time.shape.n_rows,
                    time.shape.k, time.shape.n_tokens, time.arrangement, time.arrangement_gain));
  }
  const machines::PhoneSetup& setup = *engine.phone().setup;
  const std::string notes = cut_notes_text(setup.notes, setup.length_notes, plan);
  if (!notes.empty()) print(notes + "\n");
  print(neuron_plan_text(engine));
  print(held_text(engine));
}

}  // namespace troika::cli
