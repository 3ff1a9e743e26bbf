#include "cli/tune/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/units.h"
#include "machines/phone_prompts.h"

namespace troika::cli {
namespace {

// Returns where a phone's graphs change; null elsewhere.
const machines::PhonePrompts* phone_layouts(const engine::Engine& engine) {
  const machines::PhonePrompts* prompts = engine.phone().prompts;
  return prompts != nullptr && prompts->has_layouts() ? prompts : nullptr;
}

int64_t n_in_steps_layout(const prepare::LayoutLoader& loader) {
  const auto& layouts = loader.layouts().layouts();
  return std::count(layouts.begin(), layouts.end(), schedule::Layout::kStep);
}

}  // namespace

nlohmann::ordered_json layouts_json(const engine::Engine& engine) {
  if (const machines::PhonePrompts* phone = phone_layouts(engine); phone != nullptr) {
    return {{"blocks", phone->layouts().n_blocks()},
            {"blocks_for_steps", phone->n_switched()},
            {"loads", phone->counters().n_loads},
            {"loads_back", phone->counters().n_loads_back},
            {"load_s", phone->counters().load_us / kUsPerS},
            {"wait_s", phone->counters().wait_us / kUsPerS}};
  }
  const prepare::LayoutLoader* loader = engine.loaded().layouts.get();
  if (loader == nullptr) return nullptr;
  const prepare::LayoutLoader::Counters& c = loader->counters();
  const weights::SwitchedBlocks& blocks = loader->blocks();
  return {{"bytes_now", blocks.held().now.load()},
          {"bytes_peak", blocks.held().peak.load()},
          {"bytes_of_a_copy", blocks.copy_bytes()},
          {"bytes_of_a_block", blocks.largest_bytes()},
          {"blocks", blocks.n_blocks()},
          {"blocks_for_steps", n_in_steps_layout(*loader)},
          {"loads", c.n_loads},
          {"loads_back", c.n_loads_back},
          {"load_s", c.load_us / kUsPerS},
          {"wait_s", c.wait_us / kUsPerS},
          {"read_bytes", c.read_bytes},
          {"buffered_reads", c.n_buffered_reads}};
}

std::string layouts_text(const engine::Engine& engine) {
  if (const machines::PhonePrompts* phone = phone_layouts(engine); phone != nullptr) {
    const schedule::LoadCounters& c = phone->counters();
    return fmt::format(
        "layouts    {:8.2f} s   of loading graphs in {} + {} loads, {:.2f} s of them waited for "
        "(all runs)\n",
        c.load_us / kUsPerS, c.n_loads, c.n_loads_back, c.wait_us / kUsPerS);
  }
  const prepare::LayoutLoader* loader = engine.loaded().layouts.get();
  if (loader == nullptr) return {};
  const prepare::LayoutLoader::Counters& c = loader->counters();
  const weights::SwitchedBlocks& blocks = loader->blocks();
  return fmt::format(
      "layouts    {:8.2f} s   of loading in {} + {} loads, {:.2f} s of them waited for; {} at the "
      "peak (one copy {}, one block {})\n",
      c.load_us / kUsPerS, c.n_loads, c.n_loads_back, c.wait_us / kUsPerS,
      bytes_text(blocks.held().peak), bytes_text(blocks.copy_bytes()),
      bytes_text(blocks.largest_bytes()));
}

}  // namespace troika::cli
